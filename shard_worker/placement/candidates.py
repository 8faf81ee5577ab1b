"""Feasible nodes of a task in a session, and the choice among them.

Feasibility is a mask over all rows; the excluded rows are counted by reason, each row once, by the
first check that it fails. The choice goes by the four levels: idle in the own shard, idle in
others, idle in the future in the own, idle in the future in others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import DEVICES_IDLE
from shard_worker.framework.rules import Mask
from shard_worker.placement.block_maxima import noise
from shard_worker.view.mode import Mode
from shard_worker.view.node_reasons import FOREIGN, QUARANTINED, STALE_SPEC
from shared.messages.messages import Level
from shared.units.things import lacking

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo


@dataclass(slots=True)
class Feasible:
    """Rows that a task may take, and the reasons that exclude the others."""

    mask: Mask
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason -> rows; each examined row counts once."""


def feasible(
    ssn: Session,
    task: TaskInfo,
    *,
    within: Mask | None = None,
    fit: bool = True,
    cure: bool = False,
) -> Feasible:
    """The rows where a task may be placed.

    ``within``: the rows to examine, None = every node. ``fit``: it must fit the idle or future idle
    amounts. ``cure``: evictions are allowed, so that only checks that they cannot cure exclude a
    row.
    """
    world = ssn.world
    remaining = world.view.exists() if within is None else within & world.view.exists()
    reasons: dict[str, int] = {}

    def charge(reason: str, passes: Mask) -> None:
        failed = remaining & ~passes
        if count := int(failed.sum()):
            reasons[reason] = reasons.get(reason, 0) + count
            np.logical_and(remaining, passes, out=remaining)

    remaining = remaining.copy()
    if world.mode is Mode.HARD:
        charge(FOREIGN, world.view.own)
    charge(STALE_SPEC, world.view.live())
    charge(QUARANTINED, ~world.view.withheld)
    # What leaves could make room, so that amounts exclude no row where evictions are allowed.
    if fit and not cure:
        for slot, amount in task.requests:
            charge(f"Insufficient {world.view.slot_name(slot)}", world.future_idle(slot) >= amount)
        for name, room in world.view.things.rooms(task.cls.things):
            charge(lacking(name), room.over(world.size, room.future) > 0)
    for check in ssn.checks(task):
        if not cure or not check.curable:
            charge(check.reason, check.mask)
    return Feasible(remaining, reasons)


def choose(ssn: Session, task: TaskInfo, mask: Mask) -> tuple[int, Level] | None:
    """The best row of the first level that has one; None where no row fits any more."""
    for level, rows in levels(ssn, task, mask):
        if len(rows):
            return best(ssn, task, rows), level
    return None


def levels(ssn: Session, task: TaskInfo, mask: Mask) -> list[tuple[Level, NDArray[np.intp]]]:
    """The rows of each level, in the order in which levels are tried."""
    world = ssn.world
    idle = mask & fits_idle(ssn, task)
    # A row is in one level only: one that fits now is never taken as a promise.
    future = mask & ~idle & world.fits_future(task.cls)
    own_rows = world.own()
    return [
        (Level.IDLE_OWN, np.flatnonzero(idle & own_rows)),
        (Level.IDLE_OTHER, np.flatnonzero(idle & ~own_rows)),
        (Level.FUTURE_OWN, np.flatnonzero(future & own_rows)),
        (Level.FUTURE_OTHER, np.flatnonzero(future & ~own_rows)),
    ]


def fits_idle(ssn: Session, task: TaskInfo) -> Mask:
    """The rows with room for the task now, also on the devices that a plugin would choose."""
    fits = ssn.world.fits_idle(task.cls)
    for rule in ssn.rules(DEVICES_IDLE):
        if rule.fn(task.cls):
            fits &= rule.scalar(task, ssn.world)
    return fits


def best(ssn: Session, task: TaskInfo, rows: NDArray[np.intp]) -> int:
    """The row with the highest score, or the one that a plugin insists on. Ties go by the session's
    seed, without a seed to the first. A single row is not scored."""
    if len(rows) == 1:
        return int(rows[0])
    scores = ssn.node_scores(task, rows)
    insisted = ssn.best_node(task, rows, scores)
    if insisted is not None:
        return insisted
    # Volcano takes one of the best at random. A seed makes it repeatable, and different for each
    # shard: two workers with one order of equals would run into each other at every node.
    if ssn.seed is not None:
        scores = scores + noise(ssn.seed, ssn.world.size)[rows]
    return int(rows[int(np.argmax(scores))])


def by_score(ssn: Session, task: TaskInfo, rows: NDArray[np.intp]) -> list[int]:
    """The rows, highest score first; equals keep their order."""
    scores = ssn.node_scores(task, rows)
    ranked: list[int] = rows[np.argsort(-scores, kind="stable")].tolist()
    return ranked
