"""The loss of the ledger in a chaos run: while nothing of ours runs it is emptied, or a copy of
some seconds before takes its place.

A run with a loss has two *acts*, one before and one after it. Each has a history of its own, since
the ledger that follows is another one, which numbers its jobs from the first again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from laboratory.chaos.plan import PlannedFault
from laboratory.chaos.report import RunFailed
from laboratory.own_directory import delete_own
from shared.codec.packed import replace

FILES = "appendonlydir"
"""Subdirectory of the server's own files in the data directory. Beside it stands what is known of
the ledger."""
AGES = (8.0, 16.0)
"""Seconds by which a copy is older. What was seen of a ledger is noted five seconds late, so that a
younger one is what a server may lose by itself."""
COPY_TRIES = 5
LONGEST_ACT = 0.6
"""Fraction of the duration; the rest is for the act after the loss."""


class LossKind(StrEnum):
    EMPTIED = "ledger emptied"
    OLD_COPY = "old copy of the ledger"


@dataclass(frozen=True, slots=True)
class LedgerLoss:
    kind: LossKind
    age: float = 0.0
    """Age of a copy, in seconds."""


@dataclass(frozen=True, slots=True)
class Act:
    """A part of a run in which there is one ledger. Its faults strike ``at`` seconds of it."""

    duration: float
    blows: list[PlannedFault]
    loss: LedgerLoss | None
    """At its end."""


def draw_loss(seed: int, duration: float) -> LedgerLoss | None:
    """Two seeds of three have one, if the run is long enough to have anything to lose."""
    rng = Random(f"ledger loss {seed}")
    kind = (None, LossKind.EMPTIED, LossKind.OLD_COPY)[seed % 3]
    if kind is None or duration * LONGEST_ACT < AGES[1] + 2.0:
        return None
    return LedgerLoss(kind, rng.uniform(*AGES) if kind is LossKind.OLD_COPY else 0.0)


def acts_of(blows: Sequence[PlannedFault], duration: float, loss: LedgerLoss | None) -> list[Act]:
    if loss is None:
        return [Act(duration, list(blows), None)]
    end = duration * LONGEST_ACT
    after = [replace(blow, at=round(blow.at - end, 3)) for blow in blows if blow.at >= end]
    before = [blow for blow in blows if blow.at < end]
    return [Act(end, before, loss), Act(duration - end, after, None)]


async def copy_files(data_dir: Path, copy: Path) -> None:
    """Copy what a running server keeps. Raises RunFailed."""
    for _ in range(COPY_TRIES):
        delete_own(copy)
        before = _manifest(data_dir)
        try:
            await asyncio.to_thread(shutil.copytree, data_dir / FILES, copy)
        except (OSError, shutil.Error):
            continue  # the server has just rewritten its files
        if before and _manifest(data_dir) == before:
            return
        await asyncio.sleep(0.5)
    raise RunFailed(f"{data_dir / FILES} cannot be copied")


def lose(loss: LedgerLoss, data_dir: Path, copy: Path) -> None:
    """No server runs. Raises NotOwnDirectory."""
    delete_own(data_dir / FILES)
    if loss.kind is LossKind.OLD_COPY:
        copy.rename(data_dir / FILES)


def _manifest(data_dir: Path) -> bytes:
    """Which files belong together."""
    return b"".join(path.read_bytes() for path in sorted((data_dir / FILES).glob("*.manifest")))
