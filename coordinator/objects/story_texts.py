"""Sentences of stories that are told as they happen, and told again from the history."""

from __future__ import annotations

from coordinator.bind.evictions import rule_of
from shared.messages.messages import ENDED, TaskState
from shared.units.amount_text import plural

REMEMBERED = frozenset((TaskState.RUNNING, *ENDED))
"""States of tasks whose beginning a story has."""


def stopped_text(count: int) -> str:
    return f"{plural(count, 'task')} told to stop"


def nominated_text(count: int, shard: int) -> str:
    return f"{plural(count, 'task')} promised room by shard-{shard} when what is there leaves"


def evicted_text(by: str, reason: str) -> str:
    """Of the victim. ``by``: the job that it makes room for; empty where that is itself."""
    return f"evicted for {by}{_rule(reason)}" if by else f"evicted{_rule(reason)}"


def evicting_text(count: int, victim: str, reason: str) -> str:
    """Of the job that room is made for."""
    return f"{plural(count, 'task')} of {victim} evicted for it{_rule(reason)}"


def _rule(reason: str) -> str:
    return f" by {rule_of(reason)}" if reason else ""
