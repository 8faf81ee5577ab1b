"""Sentences of stories that are told as they happen, and told again from the history."""

from __future__ import annotations

from coordinator.bind.evictions import rule_of
from coordinator.controllers.restarts import RESTARTING
from coordinator.core.observer import EventReason
from shared.messages.messages import ENDED, TaskState
from shared.units.amount_text import plural

REMEMBERED = frozenset((TaskState.RUNNING, *ENDED))
"""States of tasks whose beginning a story has."""

WARNINGS: frozenset[str] = frozenset(
    (
        EventReason.SHARD_LOST,
        EventReason.SHARD_REFUSED,
        EventReason.QUEUE_CLOSED,
        EventReason.NODE_SET_ASIDE,
        EventReason.LEDGER_CONTRADICTION,
        *("Failed", RESTARTING),
    )
)
"""Reasons of cluster objects whose events are warnings."""

OF_CLUSTER: dict[str, str] = {
    EventReason.SHARD_LOST: "its worker does not answer; another takes its place, and its turns "
    "are read anew",
    EventReason.SHARD_RECOVERED: "another worker serves it",
    EventReason.SHARD_REBALANCED: "nodes came to it or left it",
    EventReason.NODE_RETURNED: "its time aside is over: it may take tasks again",
    EventReason.QUEUE_CLOSED: "it takes no new work; what runs goes on",
}
"""Messages of cluster events, by reason."""


def stopped_text(count: int) -> str:
    return f"{plural(count, 'task')} told to stop"


def nominated_text(count: int, shard: int) -> str:
    return f"{plural(count, 'task')} promised room by shard-{shard} when what is there leaves"


def evicted_text(by: str, reason: str) -> str:
    """Describe an eviction for the victim. ``by``: the job that it makes room for; empty where that
    is itself."""
    return f"evicted for {by}{_rule(reason)}" if by else f"evicted{_rule(reason)}"


def evicting_text(count: int, victim: str, reason: str) -> str:
    """Describe an eviction for the job that it makes room for."""
    return f"{plural(count, 'task')} of {victim} evicted for it{_rule(reason)}"


def _rule(reason: str) -> str:
    return f" by {rule_of(reason)}" if reason else ""
