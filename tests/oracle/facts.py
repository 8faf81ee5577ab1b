"""The facts of a scenario of Volcano's objects that the rules about differences need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from shared.codec.packed import replace
from shared.units.quantity import amount
from tests.builders.objects import GROUP
from tests.oracle.outcome import Outcome, Shape

Json = Mapping[str, Any]
EVICTING = ("preempt", "reclaim")


class Facts:
    """The facts of a scenario that the rules need."""

    def __init__(self, scenario: Json) -> None:
        self.scenario = scenario
        self.cluster = cluster = scenario["cluster"]
        self.policy = scenario["policy"]
        self.plugins = {
            plugin["name"] for tier in self.policy["tiers"] for plugin in tier["plugins"]
        }
        self.actions = [name.strip() for name in self.policy["actions"].split(",")]
        self.pods = {key(pod): pod for pod in cluster.get("pods", ())}
        self.shape = Shape(scenario)
        self.groups = {key(group): group for group in cluster.get("podGroups", ())}
        self.queues = {
            queue["metadata"]["name"]: queue.get("spec", {}) for queue in cluster.get("queues", ())
        }
        self.group_of: dict[str, str] = {}
        self.promised: set[str] = set()
        """PodGroups that a session of the other scheduler promised places."""
        self.node_of: dict[str, str] = {}
        self.running: Counter[str] = Counter()
        for pod in cluster.get("pods", ()):
            metadata = pod["metadata"]
            name = metadata.get("annotations", {}).get(GROUP, "")
            group = self.group_of[key(pod)] = f"{metadata.get('namespace', 'default')}/{name}"
            self.node_of[key(pod)] = node = pod.get("spec", {}).get("nodeName", "")
            self.running[group] += bool(node)

    def evicting(self) -> bool:
        return any(action in EVICTING for action in self.actions)

    def runs_before(self, first: str, second: str) -> bool:
        actions = self.actions
        return {first, second} <= set(actions) and actions.index(first) < actions.index(second)

    def by_group(self, pods: Sequence[str]) -> Counter[str]:
        return Counter(self.group_of[pod] for pod in pods)

    def places(self, outcome: Outcome) -> Counter[str]:
        return self.by_group([*outcome.binds, *outcome.pipelined])

    def held(self, outcome: Outcome) -> dict[str, int]:
        """PodGroup -> members that have a place, or are promised one."""
        places, leaving = self.places(outcome), self.by_group(outcome.evicted)
        return {
            group: self.running[group] + places[group] - leaving[group] for group in self.groups
        }

    def spread(self, outcome: Outcome, group: str) -> int:
        """On how many hyper nodes the group's pods are, with those that run already."""
        placed = {**self.node_of, **outcome.binds, **outcome.pipelined}
        nodes = {node for pod, node in placed.items() if node and self.group_of[pod] == group}
        return sum(not nodes.isdisjoint(members) for members in self.shape.hyper_nodes.values())

    def minimum(self, group: str) -> int:
        return int(self.groups[group].get("spec", {}).get("minMember", 0))

    def whole(self, outcome: Outcome) -> Outcome:
        """The outcome without promises to gangs that stay below their minimum."""
        held = self.held(outcome)
        return replace(
            outcome,
            pipelined={
                pod: node
                for pod, node in outcome.pipelined.items()
                if held[self.group_of[pod]] >= self.minimum(self.group_of[pod])
            },
        )

    def without_nodes(self, outcome: Outcome) -> str:
        return self.shape.without_nodes(outcome)

    def queue_of(self, group: str) -> str:
        return str(self.groups[group].get("spec", {}).get("queue", ""))

    def differing(self, ours: Outcome, them: Outcome) -> set[str]:
        """PodGroups of which another number of pods is placed, or evicted."""
        places, others = self.places(ours), self.places(them)
        left, leaving = self.by_group(ours.evicted), self.by_group(them.evicted)
        return {
            group
            for group in self.groups
            if (places[group], left[group]) != (others[group], leaving[group])
        }

    def below(self, queue: str) -> set[str]:
        """PodGroups of the queue, and of those below it in the tree."""
        return {group for group in self.groups if queue in self._way(self.queue_of(group))}

    def _way(self, queue: str) -> set[str]:
        """The queue and all above it but the root."""
        way: set[str] = set()
        while queue in self.queues and queue not in way:
            way.add(queue)
            queue = self.queues[queue].get("parent", "")
        return way - {"root"}

    def tree_of_queues(self) -> bool:
        return any(
            plugin["name"] == "capacity" and plugin.get("enableHierarchy", False)
            for tier in self.policy["tiers"]
            for plugin in tier["plugins"]
        )

    def used_by_queue(self, outcome: Outcome) -> defaultdict[str, Counter[str]]:
        """Queue -> what its pods use once victims have left and promises are bound."""
        used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, pod in self.pods.items():
            runs = self.node_of[name] and name not in outcome.evicted
            group = self.group_of[name]
            if group in self.groups and (
                runs or name in outcome.binds or name in outcome.pipelined
            ):
                used[self.queue_of(group)].update(requests(pod))
        return used

    def promised_free(self, outcome: Outcome) -> set[str]:
        """PodGroups with promises on nodes that have room for these as they are."""
        beside = replace(outcome, binds={}, evicted=[])
        full = self.overfull(beside)
        return set(self.by_group([pod for pod, on in outcome.pipelined.items() if on not in full]))

    def overfull(self, outcome: Outcome) -> set[str]:
        """Nodes without room for all that is on them once victims have left and promises are
        bound."""
        asked: dict[str, Counter[str]] = defaultdict(Counter)
        stay = {pod: on for pod, on in self.node_of.items() if on and pod not in outcome.evicted}
        for pod, on in {**stay, **outcome.binds, **outcome.pipelined}.items():
            asked[on].update(requests(self.pods[pod]))
        nodes = {node["metadata"]["name"]: node["status"] for node in self.cluster.get("nodes", ())}
        return {on for on, used in asked.items() if beyond(used, nodes[on]["allocatable"])}

    def beside_victims(self, outcome: Outcome, group: str) -> bool:
        """Whether the group has more promises on a node than pods of other queues run there."""
        queue = self.queue_of(group)
        promised = Counter(
            on for pod, on in outcome.pipelined.items() if self.group_of[pod] == group
        )
        others = Counter(
            on
            for pod, on in self.node_of.items()
            if on
            and self.group_of[pod] in self.groups
            and self.queue_of(self.group_of[pod]) != queue
        )
        return any(promised[on] > others[on] for on in promised)

    def comes_before(self, group: str, other: str) -> bool:
        """Whether a queue serves the group before another of its own by their priority classes."""
        return self.queue_of(group) == self.queue_of(other) and self.priority(
            group
        ) >= self.priority(other)

    def priority(self, group: str) -> int:
        name = self.groups[group].get("spec", {}).get("priorityClassName", "")
        classes = self.cluster.get("priorityClasses", ())
        return next((one["value"] for one in classes if one["metadata"]["name"] == name), 0)


def requests(pod: Json) -> Counter[str]:
    total: Counter[str] = Counter()
    for container in pod["spec"].get("containers", ()):
        total.update(amounts(container.get("resources", {}).get("requests") or {}))
    return total


def amounts(written: Mapping[str, str]) -> dict[str, int]:
    return {name: amount(name, text, name) for name, text in written.items()}


def beyond(used: Counter[str], amounts: Mapping[str, str]) -> bool:
    return any(used[name] > amount(name, written, name) for name, written in amounts.items())


def key(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"
