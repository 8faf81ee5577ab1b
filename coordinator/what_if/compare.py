"""Which decisions are others under another policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coordinator.what_if.outcome import Result

NOTHING = "waits"


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod, or PodGroup, of which something else becomes."""

    id: str
    kind: str
    """Pod or PodGroup."""
    name: str
    here: str
    there: str

    def as_json(self) -> dict[str, str]:
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "policy": self.here,
            "other": self.there,
        }


def differences(here: Iterable[Result], there: Iterable[Result]) -> list[Difference]:
    """Of the sessions in a row under one policy and under another."""
    ours, others = list(here), list(there)
    name = ours[0].id if ours else ""
    found = []
    for kind, told in (("Pod", _pods), ("PodGroup", _groups)):
        left, right = told(ours), told(others)
        for key in sorted(left.keys() | right.keys()):
            one, other = left.get(key, NOTHING), right.get(key, NOTHING)
            if one != other:
                found.append(Difference(name, kind, key, one, other))
    return found


def _pods(results: Iterable[Result]) -> dict[str, str]:
    """What was decided about a pod, one session after the other."""
    told: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for result in results:
        for key, decision in _decisions(result):
            if last.get(key) != decision:
                told.setdefault(key, []).append(decision)
                last[key] = decision
    return {key: ", then ".join(decisions) for key, decisions in told.items()}


def _decisions(result: Result) -> Iterator[tuple[str, str]]:
    yield from ((pod, f"bind to {node}") for pod, node in result.binds.items())
    yield from ((pod, "evict") for pod in result.evicted)
    yield from ((pod, f"promise {node}") for pod, node in result.pipelined.items())


def _groups(results: Iterable[Result]) -> dict[str, str]:
    """The phase that each PodGroup has in the end."""
    last: dict[str, str] = {}
    for result in results:
        last |= {key: str(group["phase"]) for key, group in result.pod_groups.items()}
    return last
