"""Which nodes to reserve for a job that finds no room: those that are most nearly free.

A stream of small tasks takes whatever becomes free, so that the room for a wide job, or for a large
task, never accumulates. Nodes that no other job may use drain by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.placement.candidates import feasible

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, TaskInfo

Room = dict[int, NDArray[np.int64]]
"""Slot -> per row, the amount that is left once all present tasks have left."""
ThingRoom = dict[str, NDArray[np.int64]]
"""The same for named things: name -> ``[dimension][row]``."""


def rows_for(ssn: Session, job: SessionJob) -> list[int]:
    """Rows that together can hold the members missing to the job's minimum; empty if no rows can.
    Own rows before others, and among them those with the least in use.

    Depends on the world alone and changes nothing.
    """
    tasks = _missing(job)
    room: Room = {}
    things: ThingRoom = {}
    chosen: list[int] = []
    for task in tasks:
        row = _row_for(ssn, task, room, things, chosen)
        if row < 0:
            return []
        if row not in chosen:
            chosen.append(row)
        for slot, amount in task.requests:
            room[slot][row] -= amount
        for name, amounts in task.cls.things:
            things[name][:, row] -= amounts
    return chosen


def _missing(job: SessionJob) -> list[TaskInfo]:
    """The first members that the job needs together, at least one."""
    waiting = [task for task in job.pending_tasks() if not task.backfilled and not task.role.gated]
    now = job.census
    least = job.minimum - now.ready - now.pending_best_effort
    return waiting[: max(1, least)]


def _row_for(ssn: Session, task: TaskInfo, room: Room, things: ThingRoom, chosen: list[int]) -> int:
    """The row for one more task: an already chosen one if it fits there, else the one most nearly
    free."""
    world = ssn.world
    passes = feasible(ssn, task, cure=True).mask
    for slot, amount in task.requests:
        if slot not in room:
            room[slot] = world.view.column("allocatable", slot).copy()
        passes = passes & (room[slot] >= amount)
    for name, amounts in task.cls.things:
        if name not in things:
            things[name] = world.view.things.offered(name, len(amounts), world.size)
        passes = passes & (things[name] >= np.array(amounts)[:, np.newaxis]).all(axis=0)
    # Nodes that are kept already come first: each further one stands idle while it drains (decision
    # 0029).
    for row in chosen:
        if passes[row]:
            return row
    rows = np.flatnonzero(passes)
    if not len(rows):
        return -1
    is_own = world.own()[rows]
    order = np.lexsort((rows, _in_use(ssn, task, rows), ~is_own))
    return int(rows[order[0]])


def _in_use(ssn: Session, task: TaskInfo, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """The largest used fraction, on each row, of the task's requested resources; leaving tasks are
    not counted."""
    view = ssn.world.view
    most = np.zeros(len(rows), np.float64)
    for slot, _ in task.requests:
        offered = np.maximum(view.column("allocatable", slot)[rows], 1)
        used = view.column("used", slot)[rows] - view.column("releasing", slot)[rows]
        most = np.maximum(most, used / offered)
    return most
