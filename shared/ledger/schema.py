"""The versions of the ledger's records, and the progress of a migration.

Two fields of the meta record hold it. ``schema``: the version of the records, or the one they are
being migrated to. ``take_up``: present only during a migration, with its progress. So a version
that cannot read the new schema refuses the ledger from the first step of a migration on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from shared.ledger.errors import LedgerIdentity

SCHEMA = 5
"""The version of the records and scripts in this package."""

OLDEST = 5
"""The oldest version that this package migrates: that of the first release."""


@dataclass(frozen=True, slots=True)
class TakeUpProgress:
    """The progress of a migration. ``step``: the name of the current step, from ``schema`` to the
    next. ``after``: the last field that it converted; ``done`` of ``of`` (counted at its start)."""

    schema: int
    step: str = ""
    after: str = ""
    done: int = 0
    of: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> TakeUpProgress:
        """Errors: LedgerIdentity."""
        try:
            fields = json.loads(text)
            numbers = (int(fields[name]) for name in ("done", "of"))
            return cls(int(fields["schema"]), str(fields["step"]), str(fields["after"]), *numbers)
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerIdentity(
                f"the ledger's record of its take-up cannot be read ({text!r}); take its data from "
                "a copy, then start again"
            ) from error

    def __str__(self) -> str:
        step = f": {self.step}, {self.done} of {self.of}" if self.step else ""
        return f"being taken up from schema {self.schema}{step}"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """``schema`` 0: none written yet, a new ledger."""

    schema: int
    progress: TakeUpProgress | None = None

    @classmethod
    def of(cls, schema: bytes | None, take_up: bytes | None) -> SchemaState:
        """From the fields of the meta record. Errors: LedgerIdentity."""
        progress = None if take_up is None else TakeUpProgress.decode(take_up.decode())
        return cls(int(schema or 0), progress)

    @property
    def current(self) -> bool:
        """Whether all records are of this version, or there are none yet."""
        return self.schema in (0, SCHEMA) and self.progress is None

    def check(self) -> None:
        """Raises LedgerIdentity where this version can neither read nor migrate the records."""
        text = f"the ledger has schema {self.schema}, this version knows {SCHEMA}: "
        if self.schema > SCHEMA:
            raise LedgerIdentity(text + "run the version that wrote it, or a newer one")
        if 0 < self.schema < OLDEST:
            raise LedgerIdentity(
                text + f"it takes up schema {OLDEST} and later. Run the one that wrote it until "
                "its jobs have ended; then start anew with an empty data directory"
            )

    def check_current(self) -> None:
        """Raises LedgerIdentity where the records must not be read yet."""
        self.check()
        if not self.current:
            raise LedgerIdentity(
                f"the ledger has schema {self.schema}{_on_its_way(self.progress)}, this version "
                f"knows {SCHEMA}: its records can be read once a coordinator of this version has "
                "taken them up; stop the coordinators of the version before, if any lead"
            )


def _on_its_way(progress: TakeUpProgress | None) -> str:
    return "" if progress is None else f" ({progress})"
