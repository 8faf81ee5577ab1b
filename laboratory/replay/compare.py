"""Differences between the decisions of two policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from laboratory.replay.outcome import ReplayResult

NOTHING = "waits"


@dataclass(frozen=True, slots=True)
class DecisionDifference:
    """A pod or PodGroup that two policies decide differently."""

    id: str
    kind: str
    """Pod or PodGroup."""
    name: str
    ours: str
    theirs: str

    def as_json(self) -> dict[str, str]:
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "policy": self.ours,
            "other": self.theirs,
        }


def differences(
    results: Iterable[ReplayResult], other_results: Iterable[ReplayResult]
) -> list[DecisionDifference]:
    """Differences between the sessions under one policy and under another."""
    ours, others = list(results), list(other_results)
    name = ours[0].id if ours else ""
    changes = []
    for kind, summarise in (("Pod", _pods), ("PodGroup", _groups)):
        decisions, other_decisions = summarise(ours), summarise(others)
        for key in sorted(decisions.keys() | other_decisions.keys()):
            decision, other_decision = (
                decisions.get(key, NOTHING),
                other_decisions.get(key, NOTHING),
            )
            if decision != other_decision:
                changes.append(DecisionDifference(name, kind, key, decision, other_decision))
    return changes


def _pods(results: Iterable[ReplayResult]) -> dict[str, str]:
    """The decisions about each pod over all sessions."""
    decisions_of: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for result in results:
        for key, decision in _decisions(result):
            if last.get(key) != decision:
                decisions_of.setdefault(key, []).append(decision)
                last[key] = decision
    return {key: ", then ".join(decisions) for key, decisions in decisions_of.items()}


def _decisions(result: ReplayResult) -> Iterator[tuple[str, str]]:
    places = result.binds | result.awaiting_volumes
    yield from ((pod, f"bind to {node}") for pod, node in places.items())
    yield from ((pod, "evict") for pod in result.evicted)
    yield from ((pod, f"promise {node}") for pod, node in result.pipelined.items())


def _groups(results: Iterable[ReplayResult]) -> dict[str, str]:
    """The final phase of each PodGroup."""
    last: dict[str, str] = {}
    for result in results:
        last |= {key: str(group["phase"]) for key, group in result.pod_groups.items()}
    return last
