"""Policies as a history has them: which rules speak about victims, and what nodes are asked for.

The tables say of Volcano's plugins, by their names, where they speak; nothing is taken from the
scheduler's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

SPEAKS: dict[str, frozenset[str]] = {
    "preempt": frozenset(
        {"priority", "gang", "conformance", "pdb", "drf", "tdm", "cdp", "extender"}
    ),
    "reclaim": frozenset(
        {"gang", "conformance", "pdb", "cdp", "proportion", "capacity", "drf", "extender"}
    ),
    "gangpreempt": frozenset(
        {"priority", "gang", "conformance", "pdb", "cdp", "proportion", "capacity"}
    ),
    "gangreclaim": frozenset({"gang", "conformance", "pdb", "cdp", "proportion", "capacity"}),
}
"""Action -> plugins that name victims in it (preemptableFn, reclaimableFn, unifiedEvictableFn)."""

_FLAG = {"preempt": "enablePreemptable", "reclaim": "enableReclaimable"}

BETWEEN_QUEUES = ("reclaim", "gangreclaim")
WITHIN_QUEUE = ("preempt", "gangpreempt")
SHUFFLE = "shuffle"
"""Names its victims by rules of its own, and is for nobody."""

KNOWN = frozenset({*SPEAKS, SHUFFLE})
"""Actions of which it is known here whom they may evict for whom."""


class CheckedPolicy:
    """One mapping of actions and tiers."""

    def __init__(self, mapping: dict[str, Any]) -> None:
        self.actions: frozenset[str] = frozenset(mapping["actions"])
        self._tiers: list[list[dict[str, Any]]] = mapping["tiers"]

    def tiers(self, action: str) -> Iterator[frozenset[str]]:
        """Of each tier the plugins that name victims in the action; tiers where none does are
        passed over."""
        able, flag = SPEAKS.get(action, frozenset()), _FLAG.get(action, "")
        for tier in self._tiers:
            names = {p["name"] for p in tier if p.get("flags", {}).get(flag, True)}
            if speaking := able & names:
                yield frozenset(speaking)

    def plugins(self) -> frozenset[str]:
        return frozenset(plugin["name"] for tier in self._tiers for plugin in tier)

    def demands(self, check: str) -> bool:
        """Does the plugin predicates make this check (``NodeAffinity`` ...)?"""
        for tier in self._tiers:
            for plugin in tier:
                if plugin["name"] == "predicates" and plugin.get("flags", {}).get(
                    "enablePredicate", True
                ):
                    value = plugin.get("arguments", {}).get(f"predicate.{check}Enable", True)
                    return bool(value)
        return False


class CheckedPolicies:
    """The policies in force, and those that a shard may still go by.

    A worker has one policy as long as it lives, and each has an epoch of its own: what it commits
    follows one of the policies since that epoch began.
    """

    def __init__(self) -> None:
        self._all: list[CheckedPolicy] = []
        self._since: dict[str, int] = {}
        """Writer -> the policy that counted when its epoch began."""

    def put(self, mapping: dict[str, Any]) -> None:
        self._all.append(CheckedPolicy(mapping))

    def begins(self, writer: str) -> None:
        """A new epoch of a writer."""
        self._since[writer] = max(len(self._all) - 1, 0)

    def of(self, writer: str) -> list[CheckedPolicy]:
        """What its commits may follow; empty where no policy was told."""
        return self._all[self._since.get(writer, 0) :]

    @property
    def newest(self) -> CheckedPolicy | None:
        return self._all[-1] if self._all else None


def demanded(policies: Iterable[CheckedPolicy], check: str) -> bool:
    """Do all policies that may count make this check?"""
    answers = [policy.demands(check) for policy in policies]
    return bool(answers) and all(answers)
