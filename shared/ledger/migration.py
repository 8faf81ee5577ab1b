"""Migrate a ledger of an earlier schema to this version's, step by step.

The leader does it after it has claimed every writer and before it reads a record. Each step goes
through the fields of one hash in their order, a slice at a time: read, convert (a pure function),
write. One script call writes a slice and the progress, if the caller still leads and nobody else is
further. So a kill between two calls, or one that loses a call's answer, loses nothing and does
nothing twice: the next leader goes on after the last slice.

From the first call on the server's run counts as not blessed. No commit, record or store of
anybody, of this version or another, is accepted until the leader blesses the run at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.codec.packed import replace
from shared.ledger.entries.stored import Write
from shared.ledger.schema import TakeUpProgress

SLICE = 500
"""Fields converted by one call: below 5 ms of the server's thread with records of 20 slots."""


Stage = tuple[int, TakeUpProgress | None]
"""(schema of the ledger, 0 for none; progress of a migration under way)."""


class RecordReader(Protocol):
    """The reads that a migration step may do."""

    async def names(self, key: str) -> list[bytes]:
        """The fields of a hash."""
        ...

    async def values(self, key: str, names: Sequence[bytes]) -> list[bytes | None]: ...


Convert = Callable[[bytes, bytes], list[Write]]
"""(field, value) -> the fields to write because of it; empty where it is unchanged."""


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """``prepare`` reads what the conversion needs beside the field itself. It runs again whenever
    the step starts or resumes, so what it reads must not change before a later step. A conversion
    writes no other field of its own hash.

    ``name`` is stored in the ledger's progress record, and shown to people.
    """

    name: str
    key: str
    prepare: Callable[[RecordReader], Awaitable[Convert]]


STEPS: dict[int, Sequence[MigrationStep]] = {}
"""Schema -> the steps from it to the next; from each that this version migrates. None was released
before today's. A worked example: ``tests/shared/ledger/migration/next_schema.py``."""


class MigratingLedger(RecordReader, Protocol):
    """The ledger operations that :func:`take_up` needs."""

    async def stage(self) -> Stage: ...

    async def write_slice(self, before: Stage, after: Stage, writes: Sequence[Write]) -> None:
        """Write one slice and the progress in one script call. Nothing is written where the stage
        is not ``before`` any more, or where the caller does not lead any more."""
        ...


async def take_up(
    ledger: MigratingLedger,
    steps: Mapping[int, Sequence[MigrationStep]],
    on_progress: Callable[[TakeUpProgress], None],
    *,
    target: int,
    size: int = SLICE,
) -> None:
    """Migrate the ledger to schema ``target``; no effect where it has it already.

    ``steps``: the steps from each schema to the next, by the schema they start from.
    ``on_progress`` is called after every slice.
    """
    while True:
        schema, progress = stage = await ledger.stage()
        if progress is not None:
            await _TakeUp(ledger, schema, progress, on_progress, size).finish(
                steps[progress.schema]
            )
        elif schema in (0, target):
            return
        else:
            on_progress(begun := TakeUpProgress(schema))
            await ledger.write_slice(stage, (schema + 1, begun), [])


@dataclass(slots=True)
class _TakeUp:
    """A migration from ``schema`` that was started, here or by an earlier leader."""

    ledger: MigratingLedger
    schema: int
    progress: TakeUpProgress
    on_progress: Callable[[TakeUpProgress], None]
    size: int

    async def finish(self, steps: Sequence[MigrationStep]) -> None:
        """Do the remaining steps, then delete the record of the progress."""
        names = [step.name for step in steps]
        first = names.index(self.progress.step) if self.progress.step else 0
        for step in steps[first:]:
            if step.name != self.progress.step:
                await self._write(TakeUpProgress(self.progress.schema, step.name), [])
            await self._run(step)
        await self.ledger.write_slice((self.schema, self.progress), (self.schema, None), [])

    async def _run(self, step: MigrationStep) -> None:
        convert = await step.prepare(self.ledger)
        # Sorted, so that "the last field converted" says what is done, whoever goes on after a
        # crash.
        names = sorted(await self.ledger.names(step.key))
        after = self.progress.after.encode()
        remaining = [name for name in names if not after or name > after]
        for at in range(0, len(remaining), self.size):
            part = remaining[at : at + self.size]
            values = await self.ledger.values(step.key, part)
            writes: list[Write] = []
            for name, value in zip(part, values, strict=True):
                if value is not None:
                    writes += convert(name, value)
            converted = len(names) - len(remaining) + at + len(part)
            now = replace(self.progress, after=part[-1].decode(), done=converted, of=len(names))
            # The records and how far it came in one script call: a kill in between leaves neither
            # without the other (decision 0037).
            await self._write(now, writes)

    async def _write(self, now: TakeUpProgress, writes: Sequence[Write]) -> None:
        await self.ledger.write_slice((self.schema, self.progress), (self.schema, now), writes)
        self.progress = now
        self.on_progress(now)
