"""Which tasks of a gang that waits would find a place today.

Their pods say ``Schedulable``, as in Volcano, so that an autoscaler adds nodes for
the others alone.
"""

from __future__ import annotations

from collections.abc import Set

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.closed_nodes import closed_idle
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState, Need
from shared.messages.reason import Reason

_OF_ROOM = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.FRAGMENTED))


def fitting_tasks(core: Coordinator, state: JobState, why: Why | None) -> Set[int]:
    """The tasks that would have a place if the rest of their gang had one; empty where something
    else than room is why it waits.

    A turn counted them where one was tried. Otherwise the totals of the cluster say how many there
    are at most; a node that is added for the rest has the gang tried, and counted.
    """
    if why is None or why.reason not in _OF_ROOM or len(state.states) < 2:
        return frozenset()
    need = state.need or core.order.need_of(state)
    most = state.last.fitting if why.shard >= 0 and state.last is not None else None
    tasks: set[int] = set()
    for cid, count in _room(core, need):
        limit = count if most is None else min(count, most - len(tasks))
        for role in state.job.roles:
            if role.cid == cid and limit > 0:
                chosen = state.pending(role, limit)
                limit -= len(chosen)
                tasks.update(chosen)
    return tasks


def _room(core: Coordinator, need: Need) -> list[tuple[int, int]]:
    """(class, number of its tasks) that the idle amounts of the cluster suffice for, in order."""
    capacity, classes = core.order.accounts.capacity, core.order.accounts.classes
    away = capacity.releasing
    closed = closed_idle(core, (classes[cid] for cid, _ in need))
    idle = {
        slot: max(0, capacity.could_give(slot) - away.get(slot, 0) - closed.get(slot, 0))
        for slot in capacity.offered
    }
    room: list[tuple[int, int]] = []
    for cid, count in need:
        requests = [(slot, n) for slot, n in classes[cid].requests if n and slot in idle]
        fits = min([count, *(idle[slot] // n for slot, n in requests)])
        for slot, n in requests:
            idle[slot] -= fits * n
        room.append((cid, fits))
    return room
