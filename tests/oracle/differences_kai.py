"""Kinds of differences from KAI by design, each with the narrow condition under which it counts.

``docs/from-kai.md`` says of each what KAI does and what Quadrant does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from laboratory.replay.kai.rounds import run_round
from laboratory.replay.kai.scenario import read_kai_scenario
from shared.manifests.kai.groups import pod_group_of
from tests.builders.objects import GPU
from tests.oracle.decided import decided, grown
from tests.oracle.outcome import Outcome, Shape

Json = Mapping[str, Any]
SHARE = "gpu-fraction"
MANY = 5
"""From this number of different outcomes on, the runs did not have all of them."""


class Kind(Enum):
    """Why an outcome of ours is none of KAI's."""

    PEER_FAILS = "KAI's code panics"
    REFUSED = "an object is left out that KAI's admission refuses as well"
    OVERCOMMITTED = "a node runs more than it has"
    DRAWN_BY_SHARES = "pods without GPUs are drawn to nodes with a shared GPU"
    TURNS = "a department's turn is decided by the queue of it that had the last one"
    OF_THIS_CYCLE = "pods that the same cycle has placed are victims"
    OTHER_MOVES = "everybody has as many places, and no more pods are evicted, or more are placed"
    LIKE_A_FAILED_ONE = "a job is not searched for because one that asks for other amounts failed"
    THIRD_JOB = "a waiting job that gets nothing changes whose turn is first in a simulation"
    IN_STEPS = "a gang that loses its surplus before the rest counts twice"
    BELOW_QUOTA = "a queue below its quota in one resource and above in none is not reclaimed from"
    MOVED_STAY = "a job that the same cycle has moved is no victim"
    WITHIN_SHARE = "a reclaim moves pods of queues that are within their shares"
    ROOM_PROMISED = "room of victims that the job leaves is promised to others in the same cycle"
    MANY_TIES = "the same pods get places on other nodes, and there are more ties than runs"
    QUEUE_LIMIT = "a service promises what exceeds a queue's limit when the victims have left"
    TIES = "a service takes one of several nodes of equal score by its own seed"
    HALTED = "promises of a service that is halted lapse; one that goes on decides as KAI"
    GOES_ON = "a service decides further in its next turns, as a next cycle would"


class Facts:
    """The facts of a scenario that the rules need."""

    def __init__(self, scenario: Json) -> None:
        self.scenario, cluster = scenario, scenario["cluster"]
        self.nodes = {node["metadata"]["name"]: node for node in cluster["nodes"]}
        self.pods = {f"ns/{pod['metadata']['name']}": pod for pod in cluster["pods"]}
        self.actions = scenario["policy"]["actions"]
        self.limits: dict[str, float] = {
            queue["metadata"]["name"]: queue["spec"]["resources"]["gpu"]["limit"]
            for queue in cluster["queues"]
        }
        self.quotas: dict[str, dict[str, float]] = {
            queue["metadata"]["name"]: {
                name: queue["spec"]["resources"][name]["quota"] for name in ("cpu", "gpu")
            }
            for queue in cluster["queues"]
        }
        self.bounded = any(limit >= 0 for limit in self.limits.values())
        self.shape = Shape(scenario)
        self.group_of = {
            key: pod_group_of(pod["metadata"]["annotations"]) for key, pod in self.pods.items()
        }
        self.node_of = {key: pod["spec"].get("nodeName", "") for key, pod in self.pods.items()}

        self.queue_of: dict[str, str] = {
            group["metadata"]["name"]: group["spec"]["queue"] for group in cluster["podGroups"]
        }
        self.parents: dict[str, str] = {
            queue["metadata"]["name"]: queue["spec"].get("parentQueue", "")
            for queue in cluster["queues"]
        }
        self.running = Counter(self.group_of[pod] for pod, node in self.node_of.items() if node)
        self.minimum = {
            group["metadata"]["name"]: int(group["spec"]["minMember"])
            for group in cluster["podGroups"]
        }
        self.waiting: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """PodGroup -> requests of its waiting pods, in cores and GPUs, sorted."""
        for key, group in self.group_of.items():
            if not self.node_of[key]:
                cores = float(_requests(self.pods[key])["cpu"])
                self.waiting[group] = sorted([*self.waiting[group], (cores, self.gpus(key))])

    def department(self, group: str) -> str:
        return self.parents[self.queue_of[group]]

    def past_limit(self, outcome: Outcome) -> set[str]:
        """Queues that would use more whole GPUs than their limit."""
        placed = {pod for pod, node in self.node_of.items() if node} - set(outcome.evicted)
        used = Counter[str]()
        for pod in placed | outcome.binds.keys() | outcome.pipelined.keys():
            if SHARE not in self.pods[pod]["metadata"]["annotations"]:
                group = self.group_of[pod]
                for queue in (self.queue_of[group], self.department(group)):
                    used[queue] += self.gpus(pod)
        return {queue for queue, limit in self.limits.items() if 0 <= limit < used[queue]}

    def is_below_quota(self, queue: str) -> bool:
        """Whether what runs is less than the quota in some resource, and more in none."""
        used = Counter[str]()
        for pod, node in self.node_of.items():
            own = self.queue_of[self.group_of[pod]]
            if node and queue in (own, self.parents[own]):
                used["cpu"] += round(1000 * float(_requests(self.pods[pod])["cpu"]))
                used["gpu"] += self.gpus(pod)
        left = [
            quota - used[name] for name, quota in self.quotas.get(queue, {}).items() if quota >= 0
        ]
        return any(amount > 0 for amount in left) and all(amount >= 0 for amount in left)

    def alike(self, group: str, failed: str) -> bool:
        """Whether KAI takes the group for no easier than one that failed."""
        mine, other = self.waiting[group], self.waiting[failed]
        easier = (
            left != right and all(a <= b for a, b in zip(left, right, strict=True))
            for left, right in zip(mine, other, strict=False)
        )
        return len(other) <= len(mine) and not any(easier)

    def without(self, group: str) -> Json:
        """The scenario without the waiting pods of one PodGroup."""
        cluster = self.scenario["cluster"]
        pods = [
            pod
            for key, pod in self.pods.items()
            if self.node_of[key] or self.group_of[key] != group
        ]
        return {**self.scenario, "cluster": {**cluster, "pods": pods}}

    def gpus(self, pod: str) -> int:
        """Whole devices that a pod takes, or one of which it takes a part."""
        item = self.pods[pod]
        shared = SHARE in item["metadata"]["annotations"]
        return 1 if shared else int(_requests(item).get(GPU, 0))

    def places(self, outcome: Outcome) -> Counter[str]:
        return Counter(self.group_of[pod] for pod in [*outcome.binds, *outcome.pipelined])

    def leaving(self, outcome: Outcome) -> Counter[str]:
        return Counter(self.group_of[pod] for pod in outcome.evicted)

    def held(self, outcome: Outcome) -> dict[str, int]:
        """PodGroup -> pods that have a place after the session, or are promised one."""
        places, leaving = self.places(outcome), self.leaving(outcome)
        groups = set(self.group_of.values())
        return {group: self.running[group] + places[group] - leaving[group] for group in groups}


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
    read = read_kai_scenario(scenario)
    if run_round(read, read.items, act=False).recorded.recorded.left_out:
        return Kind.REFUSED
    facts = Facts(scenario)
    rules, compared = RULES, list(theirs)
    if service:
        rules, compared = RULES | SERVICE_RULES, [them.placed() for them in theirs]
    for kind, rule in rules.items():
        if any(rule(facts, ours, them, compared) for them in compared):
            return kind
    return None


Rule = Callable[[Facts, Outcome, Outcome, Sequence[Outcome]], bool]


def _overcommitted(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether pods on a node ask for more GPUs or cores than it has: a variant may have changed
    the pods, or their nodes."""
    devices, cores = Counter[str](), Counter[str]()
    for pod, node in facts.node_of.items():
        devices[node] += facts.gpus(pod)
        cores[node] += round(1000 * float(_requests(facts.pods[pod])["cpu"]))
    amounts = {name: node["status"]["allocatable"] for name, node in facts.nodes.items()}
    return any(
        devices[name] > int(amount.get(GPU, 0)) or cores[name] > 1000 * int(amount["cpu"])
        for name, amount in amounts.items()
    )


def _drawn_by_shares(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """A pod without GPUs is on another node than in ours, beside a part of a device. What it takes
    there may send others elsewhere."""
    mine, other = ({**each.binds, **each.pipelined} for each in (ours, them))
    shares = {pod for pod, item in facts.pods.items() if SHARE in item["metadata"]["annotations"]}
    beside = {other.get(pod) or facts.node_of[pod] for pod in shares}
    moved = (pod for pod in other if not facts.gpus(pod) and mine.get(pod) != other[pod])
    evicting = bool(ours.evicted or them.evicted)
    as_many = facts.held(ours) == facts.held(them)
    return (as_many or not evicting) and any(other[pod] in beside for pod in moved)


def _turns(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Jobs of two departments come out otherwise, of which one has several queues that wait."""
    mine, other = ({**each.binds, **each.pipelined} for each in (ours, them))
    pods = {pod for pod in mine.keys() | other.keys() if mine.get(pod) != other.get(pod)}
    departments = {facts.department(facts.group_of[pod]) for pod in pods}
    waiting = {(facts.department(group), facts.queue_of[group]) for group in facts.waiting}
    lines = Counter(department for department, _ in waiting if department in departments)
    evicting = bool(ours.evicted or them.evicted)
    return not evicting and len(departments) > 1 and max(lines.values(), default=0) > 1


def _of_this_cycle(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """They are evicted, or pods are moved beside them, and our service, where they run when it
    searches, decides the same: without room for the waiting job KAI searches nodes of victims
    alone."""
    if any(not facts.node_of[pod] for pod in them.evicted):
        return True
    moved = {them.pipelined[pod] for pod in them.evicted if pod in them.pipelined}
    canonical = facts.shape.canonical
    return (
        not ours.evicted
        and ours.binds == them.binds
        and bool(moved & set(them.binds.values()))
        and canonical(decided(facts.scenario, 1)) == canonical(them.placed())
    )


def _other_moves(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    mine, other = facts.held(ours), facts.held(them)
    as_many = all(mine[group] >= other[group] for group in other)
    gains = len(ours.evicted) <= len(them.evicted) or mine != other
    return bool(ours.evicted or them.evicted) and as_many and gains


def _like_a_failed_one(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """KAI passes a job over if one with no more waiting pods failed, unless a pod of it asks for
    less of everything; how many of the pods it needs does not count."""
    mine, other = facts.places(ours), facts.places(them)
    more = [group for group in mine if mine[group] > other[group]]
    unserved = [group for group in facts.waiting if not other[group] and group not in more]
    return (
        bool(more)
        and set(them.evicted) < set(ours.evicted)
        and all(mine[group] >= other[group] for group in other)
        and all(any(facts.alike(group, failed) for failed in unserved) for group in more)
    )


def _third_job(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Without that job ours is theirs."""
    idle = [group for group in facts.waiting if not facts.places(ours)[group]]
    third = [group for group in idle if not facts.places(them)[group]]
    canonical = facts.shape.canonical
    evicting = bool(ours.evicted or them.evicted)
    return evicting and any(
        canonical(decided(facts.without(group), 0)) == canonical(them) for group in third
    )


def _in_steps(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """KAI evicts none of a gang with surplus members of which ours evicts the core, or evicts
    surplus members and goes past a limit."""
    mine, other = facts.leaving(ours), facts.leaving(them)
    surplus = any(facts.running[group] > facts.minimum[group] for group in other)
    if surplus and facts.past_limit(them) - facts.past_limit(ours):
        return True
    return any(
        facts.running[group] > facts.minimum[group] > 1
        and mine[group] > facts.running[group] - facts.minimum[group]
        and not other[group]
        for group in mine
    )


def _below_quota(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """KAI 0.12 asks for that after the search, by shares alone; later ones as we do."""
    losing = {facts.queue_of[group] for group in facts.leaving(them)}
    return (
        "reclaim" in facts.actions
        and set(ours.evicted) < set(them.evicted)
        and any(
            facts.is_below_quota(each) for queue in losing for each in (queue, facts.parents[queue])
        )
    )


def _moved_stay(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """All that KAI evicts more is of jobs of which ours has moved a pod."""
    mine, other = facts.leaving(ours), facts.leaving(them)
    places = {**ours.binds, **ours.pipelined}
    moved = {facts.group_of[pod] for pod in ours.evicted if pod in places}
    more = {group for group in other if other[group] > mine[group]}
    return bool(more) and more <= moved and all(mine[group] <= other[group] for group in mine)


def _within_share(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """KAI moves all that it evicts, and ours moves less of it."""
    moves = "reclaim" in facts.actions and set(them.evicted) <= set(them.pipelined)
    mine, other = facts.places(ours), facts.places(them)
    served = {group for group in other if mine[group] < other[group]} - facts.leaving(them).keys()
    more = {group for group in mine if mine[group] > other[group]}
    return moves and set(ours.evicted) < set(them.evicted) and len(served) == 1 and not more


def _room_promised(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    mine, other = facts.places(ours), facts.places(them)
    less = {group for group in other if mine[group] < other[group]}
    promised = Counter(facts.group_of[pod] for pod in them.pipelined)
    return (
        bool(ours.evicted)
        and bool(mine.keys() - facts.leaving(ours).keys())
        and facts.leaving(ours) == facts.leaving(them)
        and all(promised[group] >= other[group] - mine[group] for group in less)
        and all(other[group] >= mine[group] for group in mine)
    )


def _many_ties(facts: Facts, ours: Outcome, them: Outcome, theirs: Sequence[Outcome]) -> bool:
    different = {facts.shape.canonical(each) for each in theirs}
    same = facts.shape.without_nodes(ours) == facts.shape.without_nodes(them)
    return len(different) >= MANY and same


def _queue_limit(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    mine, other = facts.places(ours), facts.places(them)
    fewer = bool(ours.evicted) and all(mine[group] <= other[group] for group in mine)
    return facts.bounded and fewer and facts.leaving(ours) == facts.leaving(them)


def _ties(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    return facts.shape.without_nodes(ours) == facts.shape.without_nodes(them)


def _halted(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    canonical = facts.shape.canonical
    return bool(ours.evicted) and canonical(grown(facts.scenario)) == canonical(them)


def _goes_on(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Nobody has less than in their session, and somebody has more."""
    mine, other = facts.held(ours), facts.held(them)
    return all(mine[group] >= other[group] for group in other) and mine != other


def _requests(pod: Json) -> Mapping[str, str]:
    requests: Mapping[str, str] = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests


RULES: dict[Kind, Rule] = {
    Kind.OVERCOMMITTED: _overcommitted,
    Kind.DRAWN_BY_SHARES: _drawn_by_shares,
    Kind.TURNS: _turns,
    Kind.OF_THIS_CYCLE: _of_this_cycle,
    Kind.OTHER_MOVES: _other_moves,
    Kind.LIKE_A_FAILED_ONE: _like_a_failed_one,
    Kind.THIRD_JOB: _third_job,
    Kind.IN_STEPS: _in_steps,
    Kind.BELOW_QUOTA: _below_quota,
    Kind.MOVED_STAY: _moved_stay,
    Kind.WITHIN_SHARE: _within_share,
    Kind.ROOM_PROMISED: _room_promised,
    Kind.MANY_TIES: _many_ties,
}
SERVICE_RULES: dict[Kind, Rule] = {
    Kind.QUEUE_LIMIT: _queue_limit,
    Kind.TIES: _ties,
    Kind.GOES_ON: _goes_on,
    Kind.HALTED: _halted,
}
