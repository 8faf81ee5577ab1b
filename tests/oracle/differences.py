"""Kinds of differences by design, each with the narrow condition under which it counts.

``docs/from-volcano.md`` says of each what Volcano does and what Quadrant does.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from laboratory.replay.scenario import read_scenario
from shared.codec.packed import replace
from shared.units.quantity import amount
from tests.builders.objects import GROUP
from tests.oracle.outcome import Outcome, Shape

Json = Mapping[str, Any]
EVICTING = ("preempt", "reclaim")
MANY = 5
"""From this number of different outcomes on, the runs did not have all of them."""


class Kind(Enum):
    """Why an outcome of ours is none of Volcano's."""

    PEER_FAILS = "Volcano's code panics"
    REFUSED = "intake refuses an object that the API server would refuse as well"
    NEWER = "arguments and quotas that came with Volcano 1.15"
    OVERCOMMITTED = "a node runs more than it has"
    CAPABILITY = "a queue's capability is kept although no plugin keeps it"
    PART_OF_A_GANG = "preempt promises places to a gang that stays below its minimum"
    VETO_FORGOTTEN = "victims that two plugins of a tier excluded together are evicted by a third"
    ALL_GUARANTEED = "an extended resource that guarantees take as a whole has no limit in Volcano"
    FREE_ROOM = "reclaim counts room on nodes without victims, so that one more gang is whole"
    OTHER_VICTIMS = "whoever is promised room has as much of it, and no more pods are evicted"
    SOFT_BY_DOMAINS = "a soft topology is placed domain by domain, as Volcano 1.15 does"
    PROMISES_SCORED = "the same pods get promises on nodes whose score counts promises"
    NO_ALLOCATE = "a service admits and places PodGroups also without enqueue and allocate"
    FREE_CAPACITY = "a service gives queues what is free beyond their shares"
    GOES_ON = "a service evicts further in its next turns, as a next session would"
    QUEUE_ROOM = "a service promises what exceeds a queue's capability when the victims have left"
    MANY_TIES = "the same pods get places on other nodes, and there are more ties than runs"


class Facts:
    """The facts of a scenario that the rules need."""

    def __init__(self, scenario: Json) -> None:
        self.cluster = cluster = scenario["cluster"]
        self.policy = scenario["policy"]
        self.plugins = {
            plugin["name"] for tier in self.policy["tiers"] for plugin in tier["plugins"]
        }
        self.actions = [name.strip() for name in self.policy["actions"].split(",")]
        self.pods = {_key(pod): pod for pod in cluster.get("pods", ())}
        self.shape = Shape(scenario)
        self.groups = {_key(group): group for group in cluster.get("podGroups", ())}
        self.group_of: dict[str, str] = {}
        self.promised: set[str] = set()
        """PodGroups that a session of the other scheduler promised places."""
        self.node_of: dict[str, str] = {}
        self.running: Counter[str] = Counter()
        for pod in cluster.get("pods", ()):
            metadata = pod["metadata"]
            name = metadata.get("annotations", {}).get(GROUP, "")
            group = self.group_of[_key(pod)] = f"{metadata.get('namespace', 'default')}/{name}"
            self.node_of[_key(pod)] = node = pod.get("spec", {}).get("nodeName", "")
            self.running[group] += bool(node)

    def evicting(self) -> bool:
        return any(action in EVICTING for action in self.actions)

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


def kind_of(
    scenario: Json,
    ours: Outcome,
    theirs: Sequence[Outcome],
    service: bool = False,
) -> Kind | None:
    """The first kind that explains the difference from one of their outcomes. ``service``: ours was
    decided by a service with shards, not by one session."""
    if not theirs:
        return Kind.PEER_FAILS
    if read_scenario(scenario).recorded.left_out:
        return Kind.REFUSED
    facts = Facts(scenario)
    rules = RULES
    if service:
        facts.promised = {group for them in theirs for group in facts.by_group([*them.pipelined])}
        rules, theirs = RULES | SERVICE_RULES, [facts.whole(them).placed() for them in theirs]
        if facts.shape.canonical(ours) in map(facts.shape.canonical, theirs):
            return Kind.PART_OF_A_GANG
    for kind, rule in rules.items():
        if any(rule(facts, ours, them, theirs) for them in theirs):
            return kind
    return None


Rule = Callable[[Facts, Outcome, Outcome, Sequence[Outcome]], bool]


def _part_of_a_gang(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    whole, canonical = facts.whole(them), facts.shape.canonical
    return "preempt" in facts.actions and canonical(whole) == canonical(ours)


def _veto_forgotten(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """A gang is left in part by evictions, which its own plugin excludes."""
    held = facts.held(replace(them, pipelined={}, binds={}))
    beyond = Counter(them.evicted) - Counter(ours.evicted)
    return facts.evicting() and any(
        held[group] < facts.minimum(group) <= facts.running[group]
        for group in facts.by_group(list(beyond))
    )


def _other_victims(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Room that nobody has to leave is taken first. Where pods stay for that, others may find less
    room than beside victims that leave."""
    whole = facts.whole(them)
    mine, other = facts.places(ours), facts.places(whole)
    fewer = len(ours.evicted) < len(them.evicted)
    served = facts.by_group(list(whole.pipelined)) if fewer else other
    left = facts.by_group([*ours.evicted, *them.evicted])
    untouched = {group for group in facts.groups if not mine[group] + other[group] + left[group]}
    return (
        facts.evicting()
        and (fewer or len(ours.evicted) == len(them.evicted))
        and all(mine[group] >= other[group] for group in served)
        and all(ours.phases.get(group) == them.phases.get(group) for group in untouched)
    )


def _all_guaranteed(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """The rest of it beyond all guarantees is nothing, which Volcano's sums leave out. It concerns
    the pods that ask for it."""
    total, guaranteed = Counter[str](), Counter[str]()
    for node in facts.cluster.get("nodes", ()):
        total.update(_amounts(node["status"]["allocatable"]))
    for queue in facts.cluster.get("queues", ()):
        written = queue.get("spec", {}).get("guarantee") or {}
        guaranteed.update(_amounts(written.get("resource") or {}))
    extended = guaranteed.keys() - {"cpu", "memory", "pods"}
    whole = {name for name in extended if guaranteed[name] >= total[name] > 0}
    acts = [{*each.binds, *each.pipelined, *each.evicted} for each in (ours, them)]
    differing = acts[0] ^ acts[1]
    return "capacity" in facts.plugins and any(
        whole & _requests(facts.pods[pod]).keys() for pod in differing
    )


def _free_room(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """A gang of ours that gets more is whole with it, and has a promise where nobody leaves."""
    mine, other = facts.places(ours), facts.places(them)
    held, cleared = facts.held(ours), {facts.node_of[pod] for pod in ours.evicted}
    free = facts.by_group([pod for pod, on in ours.pipelined.items() if on not in cleared])
    more = {group for group in mine if mine[group] > other[group]}
    return (
        "reclaim" in facts.actions
        and all(mine[group] >= other[group] for group in other)
        and Counter(them.evicted) <= Counter(ours.evicted)
        and bool(more)
        and all(free[group] and held[group] >= facts.minimum(group) for group in more)
    )


def _soft_by_domains(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    topologies = [
        group.get("spec", {}).get("networkTopology", {}) for group in facts.groups.values()
    ]
    soft = any(topology.get("mode") == "soft" for topology in topologies)
    return soft and facts.without_nodes(ours) == facts.without_nodes(them)


def _promises_scored(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Promises alone differ. Other nodes for the first may leave less room for the last."""
    shape, moved = facts.shape, len(ours.pipelined) > 1 and not ours.evicted and not them.evicted
    bound = [replace(each, pipelined={}) for each in (ours, them)]
    return moved and shape.without_nodes(bound[0]) == shape.without_nodes(bound[1])


def _many_ties(facts: Facts, ours: Outcome, them: Outcome, theirs: Sequence[Outcome]) -> bool:
    different = {facts.shape.canonical(each) for each in theirs}
    same = facts.without_nodes(ours) == facts.without_nodes(them)
    return len(different) >= MANY and same


def _newer(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    plugins = (plugin for tier in facts.policy["tiers"] for plugin in tier["plugins"])
    levels = any("ancestorReclaimLevel" in (plugin.get("arguments") or ()) for plugin in plugins)
    quotas = json.dumps(facts.cluster.get("queues", ()))
    return levels or "deviceclass/" in quotas


def _overcommitted(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in facts.pods.values():
        if node := pod.get("spec", {}).get("nodeName"):
            used[node].update(_requests(pod))
    return any(
        _beyond(used[node["metadata"]["name"]], node["status"]["allocatable"])
        for node in facts.cluster.get("nodes", ())
    )


def _capability(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for key, pod in facts.pods.items():
        runs = pod.get("spec", {}).get("nodeName") and key not in them.evicted
        if runs or key in them.binds or key in them.pipelined:
            spec = facts.groups.get(facts.group_of[key], {}).get("spec", {})
            used[spec.get("queue", "")].update(_requests(pod))
    return any(
        _beyond(used[queue["metadata"]["name"]], queue.get("spec", {}).get("capability") or {})
        for queue in facts.cluster.get("queues", ())
    )


def _requests(pod: Json) -> Counter[str]:
    total: Counter[str] = Counter()
    for container in pod["spec"].get("containers", ()):
        total.update(_amounts(container.get("resources", {}).get("requests") or {}))
    return total


def _amounts(written: Mapping[str, str]) -> dict[str, int]:
    return {name: amount(name, text, name) for name, text in written.items()}


def _beyond(used: Counter[str], amounts: Mapping[str, str]) -> bool:
    return any(used[name] > amount(name, written, name) for name, written in amounts.items())


RULES: dict[Kind, Rule] = {
    Kind.NEWER: _newer,
    Kind.OVERCOMMITTED: _overcommitted,
    Kind.PART_OF_A_GANG: _part_of_a_gang,
    Kind.VETO_FORGOTTEN: _veto_forgotten,
    Kind.PROMISES_SCORED: _promises_scored,
    Kind.MANY_TIES: _many_ties,
    Kind.SOFT_BY_DOMAINS: _soft_by_domains,
    Kind.OTHER_VICTIMS: _other_victims,
    Kind.ALL_GUARANTEED: _all_guaranteed,
    Kind.FREE_ROOM: _free_room,
    Kind.CAPABILITY: _capability,
}


def _no_allocate(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    phases = {group.get("status", {}).get("phase") for group in facts.groups.values()}
    return "allocate" not in facts.actions and "Pending" in phases


def _free_capacity(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """The same and more, where a plugin keeps shares of queues."""
    mine, other = facts.places(ours), facts.places(facts.whole(them))
    more = mine != other and all(mine[group] >= other[group] for group in other)
    same_victims = Counter(ours.evicted) == Counter(them.evicted)
    return more and same_victims and bool(facts.plugins & {"capacity", "proportion"})


def _goes_on(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """All of their evictions, others beside them, and as many places for everybody."""
    mine, other = facts.places(ours), facts.places(them)
    evicted, theirs = Counter(ours.evicted), Counter(them.evicted)
    more = all(mine[group] >= other[group] for group in other)
    return facts.evicting() and theirs <= evicted != theirs and more


def _queue_room(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    mine, other = facts.places(ours), facts.places(them)
    bounded = {
        queue["metadata"]["name"]
        for queue in facts.cluster.get("queues", ())
        if queue.get("spec", {}).get("capability")
    }
    less = {group for group in other if mine[group] < other[group]}
    return (
        Counter(ours.evicted) == Counter(them.evicted) != Counter()
        and less <= facts.promised
        and all(facts.groups[group]["spec"].get("queue") in bounded for group in less)
    )


def _promises_bound(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    mine, other = facts.places(ours), facts.places(them)
    differing = {group for group in facts.groups if mine[group] != other[group]}
    return not ours.evicted and not them.evicted and differing <= facts.promised


SERVICE_RULES: dict[Kind, Rule] = {
    Kind.NO_ALLOCATE: _no_allocate,
    Kind.GOES_ON: _goes_on,
    Kind.QUEUE_ROOM: _queue_room,
    Kind.FREE_CAPACITY: _free_capacity,
    Kind.PROMISES_SCORED: _promises_bound,
}


def _key(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"
