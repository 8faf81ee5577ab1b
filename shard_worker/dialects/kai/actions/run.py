"""Run the actions of a KAI policy by name."""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.dialects.kai.actions import (
    allocate,
    consolidation,
    preempt,
    reclaim,
    stale_gang_eviction,
)
from shard_worker.dialects.kai.actions.searching import EvictingAction
from shard_worker.dialects.kai.session import KaiSession

ACTIONS: dict[str, Callable[[KaiSession], None]] = {
    action.NAME: action.execute
    for action in (allocate, consolidation, reclaim, preempt, stale_gang_eviction)
}


EVICTING: dict[str, Callable[[KaiSession], EvictingAction]] = {
    action.NAME: action.evicting for action in (consolidation, reclaim, preempt)
}
"""Actions that search victims for one job."""


def run_action(session: KaiSession, name: str) -> None:
    """Run one action over the session's world."""
    if name not in ACTIONS:
        raise KeyError(f"KAI has no action {name}")
    ACTIONS[name](session)


def run_actions(session: KaiSession) -> None:
    """Run the policy's actions in order."""
    for name in session.policy.actions:
        run_action(session, name)
