"""Run the actions of a KAI policy by name."""

from __future__ import annotations

from shard_worker.dialects.kai.actions import allocate
from shard_worker.dialects.kai.session import KaiSession

EVICTING = frozenset({"consolidation", "reclaim", "preempt", "stalegangeviction"})
"""Actions that are taken and do nothing in this version; the policy warns of them."""


def run_action(session: KaiSession, name: str) -> None:
    """Run one action over the session's world."""
    if name == "allocate":
        allocate.execute(session)
    elif name not in EVICTING:
        raise KeyError(f"KAI has no action {name}")


def run_actions(session: KaiSession) -> None:
    """Run the policy's actions in order."""
    for name in session.policy.actions:
        run_action(session, name)
