"""Policies in a history: the rules about victims, and the checks of nodes.

The tables list, per Volcano plugin, the points where it has rules; nothing is taken from the
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
"""Action -> plugins with rules about victims in it (preemptableFn, reclaimableFn,
unifiedEvictableFn)."""

_FLAG = {"preempt": "enablePreemptable", "reclaim": "enableReclaimable"}

BETWEEN_QUEUES = ("reclaim", "gangreclaim")
WITHIN_QUEUE = ("preempt", "gangpreempt")
SHUFFLE = "shuffle"
"""Chooses its victims by rules of its own, and has no beneficiary."""

EVICT = "evict"
RESTART = "restart"
"""A Job's own policy begins pods of it anew: the rest of the gang stays, and nobody is asked."""
ASKED_FOR = frozenset({"delete", EVICT, RESTART})
"""Evictions of a pod that somebody asked for; no policy has these actions."""

KNOWN = frozenset({*SPEAKS, SHUFFLE, *ASKED_FOR})
"""Actions whose possible victims and beneficiaries are known here."""


_KAI = "kai"


class CheckedPolicy:
    """One mapping of actions and tiers."""

    def __init__(self, mapping: dict[str, Any]) -> None:
        self.kai: bool = mapping.get("dialect") == _KAI
        """KAI's rules count: gangs, limits and quotas are no plugin's matter, and always hold."""
        self.actions: frozenset[str] = frozenset(mapping["actions"])
        self.flat: bool = not mapping.get("options", {}).get("full_hierarchy_fairness", True)
        """KAI's queues are compared as leaves alone."""
        self.metrics: Any = mapping.get("metrics")
        """Source of measured node usage."""
        self._tiers: list[list[dict[str, Any]]] = mapping["tiers"]

    def tiers(self, action: str) -> Iterator[frozenset[str]]:
        """Per tier, the plugins with rules about victims in the action; tiers without any are
        skipped."""
        able, flag = SPEAKS.get(action, frozenset()), _FLAG.get(action, "")
        for tier in self._tiers:
            names = {p["name"] for p in tier if p.get("flags", {}).get(flag, True)}
            if speaking := able & names:
                yield frozenset(speaking)

    def keeps_gangs(self) -> bool:
        """Whether its JobReady says that a job starts with its minimum of members."""
        return self.kai or self._plugin("gang", "enableJobReady") is not None

    def bounds_reclaims(self) -> bool:
        """Whether a queue reclaims only what it deserves by its own specification."""
        if self._plugin("capacity", "enablePreemptive") is None:
            return False
        return not (self.arguments("capacity") or {}).get("ancestorReclaimLevel", 0)

    def evicts_for_room(self, action: str) -> bool:
        """Whether the action evicts only for room on nodes, and in queues with a written bound."""
        others = {"extender", "numa-aware"} | ({"proportion"} if action == "preempt" else set())
        return self.kai or all(self._plugin(name) is None for name in others)

    def places_best_effort(self) -> bool:
        """Whether pods that ask for nothing are ever placed: in KAI allocate does it."""
        return self.kai or "backfill" in self.actions

    def plugin(self, name: str) -> dict[str, Any] | None:
        """The plugin's entry, where the policy has it and lets it speak about nodes."""
        return self._plugin(name, "enablePredicate")

    def arguments(self, name: str) -> dict[str, Any] | None:
        """The arguments of a plugin; None where the policy does not have it."""
        plugin = self._plugin(name)
        return None if plugin is None else plugin.get("arguments", {})

    def keeps_topology(self) -> bool:
        """Whether it serves a hard network topology."""
        return self._plugin("network-topology-aware", "enabledHyperNodeGradient") is not None

    def demands(self, check: str) -> bool:
        """Whether the plugin predicates makes this check (``NodeAffinity`` ...)."""
        plugin = self.plugin("predicates")
        if plugin is None:
            return False
        return bool(plugin.get("arguments", {}).get(f"predicate.{check}Enable", True))

    def _plugin(self, name: str, flag: str = "") -> dict[str, Any] | None:
        """The first entry of a plugin that does not switch ``flag`` off."""
        for tier in self._tiers:
            for plugin in tier:
                if plugin["name"] == name and plugin.get("flags", {}).get(flag, True):
                    return plugin
        return None


class CheckedPolicies:
    """The policies over time, and those that a shard may still follow.

    A worker keeps one policy for life, and each has its own epoch: its commits follow one of the
    policies since that epoch began, or one that was replaced just before: whoever starts workers
    hears of a new policy a moment after the ledger has it (seed 130645).
    """

    NEW_SECONDS = 2.0
    """For so long a worker may still be started with the policy before."""

    def __init__(self) -> None:
        self._all: list[CheckedPolicy] = []
        self._stored: list[float] = []
        """When each was."""
        self._since: dict[str, int] = {}
        """Writer -> index of the first policy that it may have been started with."""

    def put(self, mapping: dict[str, Any], *, t: float) -> None:
        self._all.append(CheckedPolicy(mapping))
        self._stored.append(t)

    def begins(self, writer: str, *, t: float) -> None:
        """A writer begins a new epoch."""
        old = [at for at in self._stored if t - at >= self.NEW_SECONDS]
        self._since[writer] = max(len(old) - 1, 0)

    def of(self, writer: str) -> list[CheckedPolicy]:
        """The policies that its commits may follow; empty if the history has none."""
        return self._all[self._since.get(writer, 0) :]

    def always(self, check: str) -> bool:
        """Whether every policy of the history made this check; true of a history without any."""
        return all(policy.demands(check) for policy in self._all)

    @property
    def newest(self) -> CheckedPolicy | None:
        return self._all[-1] if self._all else None


def demanded(policies: Iterable[CheckedPolicy], check: str) -> bool:
    """Whether all policies that may be followed make this check."""
    answers = [policy.demands(check) for policy in policies]
    return bool(answers) and all(answers)
