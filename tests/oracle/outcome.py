"""Outcomes of one session, and when two of them are the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laboratory.replay.outcome import ReplayResult
from shared.manifests.kai.groups import pod_group_of
from tests.builders.objects import GROUP

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Binds, evictions and promises of one session; keys are ``namespace/name``."""

    binds: Mapping[str, str]
    evicted: Sequence[str]
    pipelined: Mapping[str, str]
    phases: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(result: ReplayResult) -> Outcome:
        phases = {group: str(report["phase"]) for group, report in result.pod_groups.items()}
        return Outcome(result.binds, sorted(result.evicted), result.pipelined, phases)

    @staticmethod
    def read(body: Json) -> Outcome:
        return Outcome(body["binds"], body["evicted"], body["pipelined"], body["phases"])

    def placed(self) -> Outcome:
        """The part that a service must match: it binds promises of idle room at once, and writes
        phases as the cluster answers."""
        return Outcome({**self.binds, **self.pipelined}, self.evicted, {})

    def as_json(self) -> dict[str, Any]:
        return {
            "binds": dict(sorted(self.binds.items())),
            "evicted": sorted(self.evicted),
            "pipelined": dict(sorted(self.pipelined.items())),
            "phases": dict(sorted(self.phases.items())),
        }


class Shape:
    """The properties by which a scenario's nodes and pods differ.

    Volcano takes one of several equal nodes at random. So two outcomes are the same if one becomes
    the other by exchanging nodes that are equal, with what runs on them, and equal pods of one
    PodGroup.
    """

    def __init__(self, scenario: Json) -> None:
        cluster = scenario["cluster"]
        self._pods: dict[str, str] = {}
        self._on: dict[str, str] = {}
        self._group: dict[str, str] = {}
        self._leaving: set[str] = set()
        """PodGroups with pods that leave: only newer Volcanos count these for the phase."""
        residents: dict[str, list[str]] = defaultdict(list)
        for pod in cluster.get("pods", ()):
            key = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
            self._pods[key] = _pod_class(pod)
            self._group[key] = f"{key.partition('/')[0]}/{_group_of(pod)}"
            if "deletionTimestamp" in pod["metadata"]:
                self._leaving.add(self._group[key])
            if node := pod.get("spec", {}).get("nodeName"):
                self._on[key] = node
                residents[node].append(self._pods[key])
        self._nodes = {
            node["metadata"]["name"]: _node_class(node, residents[node["metadata"]["name"]])
            for node in cluster.get("nodes", ())
        }
        hypers = {
            hyper["metadata"]["name"]: _members(hyper) for hyper in cluster.get("hyperNodes", ())
        }
        if any(None in members for members in hypers.values()):  # patterns: no node equals another
            self._nodes = {name: name for name in self._nodes}
        self.hyper_nodes = {
            name: [member for member in members if member is not None]
            for name, members in hypers.items()
        }

    def canonical(self, outcome: Outcome) -> str:
        """Equal for outcomes that are the same but for an exchange of equals."""
        acts: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word, places in (("bind", outcome.binds), ("promise", outcome.pipelined)):
            for pod, node in places.items():
                acts[node].append((word, self._pods[pod]))
        for pod in outcome.evicted:
            acts[self._on.get(pod, "")].append(("evict", self._pods[pod]))
        nodes = {name: json.dumps([kind, sorted(acts[name])]) for name, kind in self._nodes.items()}
        inner = {member for members in self.hyper_nodes.values() for member in members}
        tops = [*self.hyper_nodes.keys() - inner, *self._nodes.keys() - inner]
        placed = sorted(self._domain(name, nodes, ()) for name in tops)
        return json.dumps([placed, self._phases(outcome)])

    def without_nodes(self, outcome: Outcome) -> str:
        """Equal for outcomes in which the same happens to pods that are equal, anywhere."""
        acts = [("bind", self._pods[pod]) for pod in outcome.binds]
        acts += [("promise", self._pods[pod]) for pod in outcome.pipelined]
        acts += [("evict", self._pods[pod]) for pod in outcome.evicted]
        return json.dumps([sorted(acts), self._phases(outcome)])

    def _phases(self, outcome: Outcome) -> list[tuple[str, str]]:
        leaving = self._leaving | {self._group[pod] for pod in outcome.evicted}
        return sorted(each for each in outcome.phases.items() if each[0] not in leaving)

    def _domain(self, name: str, nodes: Mapping[str, str], above: Sequence[str]) -> str:
        if name in nodes or name in above:
            return nodes.get(name, "")
        inside = (*above, name)
        parts = [self._domain(member, nodes, inside) for member in self.hyper_nodes.get(name, ())]
        return json.dumps(sorted(parts))


def _pod_class(pod: Json) -> str:
    rest = {key: value for key, value in pod["metadata"].items() if key not in ("name", "uid")}
    spec = {key: value for key, value in pod.get("spec", {}).items() if key != "nodeName"}
    return json.dumps([_group_of(pod), rest, spec, pod.get("status")], sort_keys=True)


def _group_of(pod: Json) -> str:
    metadata = pod["metadata"]
    marks = metadata.get("annotations", {})
    return str(marks.get(GROUP) or pod_group_of(marks) or metadata["name"])


def _node_class(node: Json, residents: Sequence[str]) -> str:
    name = node["metadata"]["name"]
    rest = {key: value for key, value in node["metadata"].items() if key not in ("name", "uid")}
    whole = [rest, node.get("spec"), node.get("status"), sorted(residents)]
    return json.dumps(whole, sort_keys=True).replace(json.dumps(name), '"its own name"')


def _members(hyper: Json) -> list[str | None]:
    """Members of a hyper node by name; None for those of a pattern."""
    selectors = (member["selector"] for member in hyper["spec"].get("members", ()))
    return [selector.get("exactMatch", {}).get("name") for selector in selectors]
