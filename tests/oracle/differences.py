"""Kinds of differences by design, each with the narrow condition under which it counts.

``docs/from-volcano.md`` says of each what Volcano does and what Quadrant does.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import chain, combinations
from typing import Any
from unittest.mock import patch

from laboratory.replay.scenario import read_scenario
from shard_worker.dialects.volcano.plugins.queue import proportion
from shard_worker.dialects.volcano.plugins.queue.proportion import water_fill
from shard_worker.session_model.workload import ClusterInfo
from shared.codec.packed import replace
from tests.oracle.decided import decided, grown
from tests.oracle.facts import Facts, amounts, beyond, requests
from tests.oracle.outcome import Outcome

Json = Mapping[str, Any]
MANY = 5
"""From this number of different outcomes on, the runs did not have all of them."""


ERROR = 1e-3
"""Less than any amount: whole thousandths of a core, or bytes."""


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
    ROOM_FIRST = "a job that takes free room first has a larger share when drf is asked for victims"
    ONE_NODE = "victims on a node that preempt then does not use stay, and the queue is full"
    ONE_EACH = "reclaim evicts for each task, also beside what earlier victims left free"
    ONE_JOB_A_TURN = "queues take turns in reclaim, with one job each"
    LEFT_TO_ALLOCATE = "free room that reclaim promises goes by the order of allocate, and is bound"
    GUARANTEE = "a queue's guarantee is kept although no plugin keeps it"
    GUARANTEE_DESERVED = "in a tree a guarantee counts as deserved, as in Volcano 1.15"
    SHARES_ABOVE = "the share of a queue above others counts what the session has placed"
    ASSUMED_REQUESTS = "the same pods elsewhere: running pods score by requests they do not have"
    SOFT_BY_DOMAINS = "a soft topology is placed domain by domain, as Volcano 1.15 does"
    PROMISES_SCORED = "the same pods get promises on nodes whose score counts promises"
    NO_ALLOCATE = "a service admits and places PodGroups also without enqueue and allocate"
    FREE_CAPACITY = "a service gives queues what is free beyond their shares"
    GOES_ON = "a service evicts further in its next turns, as a next session would"
    QUEUE_ROOM = "a service promises what exceeds a queue's capability when the victims have left"
    ROOM_IN_PART = "room that preempt promises to a part of a gang is missing to a whole one"
    ROUNDED_SHARE = "a share of proportion is a rounding error below what its queue would use"
    SURPLUS_LATER = "a gang that a service promised its minimum gets more when that is its own"
    MANY_TIES = "the same pods get places on other nodes, and there are more ties than runs"


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
    rules, promises = RULES, theirs
    if service:
        promises = [facts.whole(them) for them in theirs]
        facts.promised = {group for them in promises for group in facts.by_group([*them.pipelined])}
        rules, theirs = RULES | SERVICE_RULES, [them.placed() for them in promises]
        if facts.shape.canonical(ours) in map(facts.shape.canonical, theirs):
            return Kind.PART_OF_A_GANG
    for kind, rule in rules.items():
        if any(rule(facts, ours, them, theirs) for them in theirs):
            return kind
    for kind, rule in PROMISE_RULES.items():
        if any(rule(facts, ours, them, promises) for them in promises):
            return kind
    return None


Rule = Callable[[Facts, Outcome, Outcome, Sequence[Outcome]], bool]


def _part_of_a_gang(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    whole, canonical = facts.whole(them), facts.shape.canonical
    return "preempt" in facts.actions and canonical(whole) == canonical(ours)


def _veto_forgotten(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """A gang is left in part by evictions, which its own plugin excludes."""
    held = facts.held(replace(them, pipelined={}, binds={}))
    more = Counter(them.evicted) - Counter(ours.evicted)
    return facts.evicting() and any(
        held[group] < facts.minimum(group) <= facts.running[group]
        for group in facts.by_group(list(more))
    )


def _other_victims(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Room that nobody has to leave is taken first. Where pods stay for that, others may find less
    room than beside victims that leave."""
    whole = facts.whole(them)
    mine, other = facts.places(ours), facts.places(whole)
    fewer = len(ours.evicted) < len(them.evicted)
    promised = facts.promised or set(facts.by_group(list(whole.pipelined)))
    served = promised if fewer else set(other)
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
        total.update(amounts(node["status"]["allocatable"]))
    for queue in facts.cluster.get("queues", ()):
        written = queue.get("spec", {}).get("guarantee") or {}
        guaranteed.update(amounts(written.get("resource") or {}))
    extended = guaranteed.keys() - {"cpu", "memory", "pods"}
    whole = {name for name in extended if guaranteed[name] >= total[name] > 0}
    acts = [{*each.binds, *each.pipelined, *each.evicted} for each in (ours, them)]
    differing = acts[0] ^ acts[1]
    return "capacity" in facts.plugins and any(
        whole & requests(facts.pods[pod]).keys() for pod in differing
    )


def _free_room(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """A gang of ours that gets more is whole with it, and has a promise where nobody leaves, or
    more promises on a node than it has possible victims. Who gets less comes after it, or is of a
    queue that has to give back."""
    mine, other = facts.places(ours), facts.places(them)
    losing = {facts.queue_of(group) for group in facts.by_group(ours.evicted)}
    held, cleared = facts.held(ours), {facts.node_of[pod] for pod in ours.evicted}
    free = facts.by_group([pod for pod, on in ours.pipelined.items() if on not in cleared])
    more = {group for group in mine if mine[group] > other[group]}
    fewer = {group for group in other if mine[group] < other[group]}
    return (
        "reclaim" in facts.actions
        and all(
            facts.comes_before(first, group) or facts.queue_of(group) in losing
            for first in more
            for group in fewer
        )
        and facts.by_group(them.evicted) <= facts.by_group(ours.evicted)
        and bool(more)
        and all(free[group] or facts.beside_victims(ours, group) for group in more)
        and all(held[group] >= facts.minimum(group) for group in more)
    )


def _room_in_part(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Nobody else gets less than in theirs, and on some node what ours promises does not fit beside
    the promises to gangs that stay below their minimum."""
    whole = facts.whole(them)
    in_part = {pod: on for pod, on in them.pipelined.items() if pod not in whole.pipelined}
    mine, other = facts.places(ours), facts.places(whole)
    return (
        "preempt" in facts.actions
        and all(mine[group] >= other[group] for group in other)
        and bool(facts.overfull(replace(ours, pipelined={**in_part, **ours.pipelined})))
        and not facts.overfull(ours)
    )


def _rounded_share(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """With shares of some queues that are lower by less than anybody asks for, ours is theirs.
    Volcano adds up shares in floating point, and compares them without tolerance."""
    if "proportion" not in facts.plugins or not facts.differing(ours, them):
        return False
    canonical = facts.shape.canonical
    exact = decided(facts.scenario, 0)
    if canonical(ours) not in {canonical(exact), canonical(exact.placed())}:
        return False  # it differs for another reason
    numbers = range(len(facts.queues))
    some = chain.from_iterable(combinations(numbers, size + 1) for size in numbers)
    wanted = {canonical(them), canonical(facts.whole(them))}
    lower = (_with_lower_shares(facts, which) for which in some)
    return any({canonical(each), canonical(each.placed())} & wanted for each in lower)


def _with_lower_shares(facts: Facts, which: Sequence[int]) -> Outcome:
    """Our outcome if the shares of these queues, by number, had an error of rounding."""

    def lower(cluster: ClusterInfo) -> proportion.Shares:
        return {
            qid: {slot: amount - ERROR * (at in which) for slot, amount in shares.items()}
            for at, (qid, shares) in enumerate(water_fill(cluster).items())
        }

    with patch.object(proportion, "water_fill", lower):
        return decided(facts.scenario, 0)


def _soft_by_domains(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """No gang with a soft topology is spread wider than in theirs."""
    soft = [
        name
        for name, group in facts.groups.items()
        if group.get("spec", {}).get("networkTopology", {}).get("mode") == "soft"
    ]
    return (
        bool(soft)
        and facts.without_nodes(ours) == facts.without_nodes(them)
        and all(facts.spread(ours, name) <= facts.spread(them, name) for name in soft)
    )


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
            used[node].update(requests(pod))
    return any(
        beyond(used[node["metadata"]["name"]], node["status"]["allocatable"])
        for node in facts.cluster.get("nodes", ())
    )


def _capability(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    used = facts.used_by_queue(them)
    return any(
        beyond(used[queue], spec.get("capability") or {}) for queue, spec in facts.queues.items()
    )


def _guarantee(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Under proportion, Volcano's victims leave their queue less than its guarantee, or its pods
    use what another queue is guaranteed."""
    used = facts.used_by_queue(them)
    guaranteed = {queue: _guarantee_of(spec) for queue, spec in facts.queues.items()}
    victims, placed = facts.by_group(them.evicted), facts.places(them)
    losing, winning = ({facts.queue_of(group) for group in each} for each in (victims, placed))
    rest = Counter[str]()
    for node in facts.cluster.get("nodes", ()):
        rest.update(amounts(node["status"]["allocatable"]))
    for each in guaranteed.values():
        rest.subtract(each)
    fewer = len(ours.evicted) <= len(them.evicted)
    return (fewer and "proportion" in facts.plugins) and (
        any(_lacks(used[queue], guaranteed[queue]) for queue in losing)
        or any(
            used[queue][name] > left + guaranteed[queue][name]
            for queue in winning
            for name, left in rest.items()
        )
    )


def _guarantee_deserved(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """It concerns pods of the queue, or of those below it."""
    differing = facts.differing(ours, them)
    return facts.tree_of_queues() and any(
        _lacks(amounts(spec.get("deserved") or {}), _guarantee_of(spec))
        and differing & facts.below(queue)
        for queue, spec in facts.queues.items()
    )


def _shares_above(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """The queues below one that deserves something got places, and another number than ours, to
    the loss or gain of other queues."""
    differing, placed = facts.differing(ours, them), set(facts.places(them))
    above = {spec.get("parent", "root") for spec in facts.queues.values()} - {"root"}
    deserving = [queue for queue in above if facts.queues.get(queue, {}).get("deserved")]
    families = [facts.below(queue) for queue in deserving]
    return facts.tree_of_queues() and any(
        family & placed and family & differing and differing - family for family in families
    )


def _left_to_allocate(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether each group with more places reaches its minimum, without more evictions."""
    mine, other, held = facts.places(ours), facts.places(them), facts.held(ours)
    more = [group for group in mine if mine[group] > other[group]]
    return (
        facts.runs_before("reclaim", "allocate")
        and bool(more)
        and len(ours.evicted) <= len(them.evicted)
        and bool(facts.promised_free(them))
        and all(held[group] >= facts.minimum(group) for group in more)
    )


def _one_job_a_turn(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether a queue gets less of which several jobs were promised room at once, and others get
    more."""
    mine, other, held = facts.places(ours), facts.places(them), facts.held(ours)
    jobs = Counter(facts.queue_of(group) for group in facts.by_group([*them.pipelined]))
    more = [group for group in mine if mine[group] > other[group]]
    fewer = [group for group in other if mine[group] < other[group]]
    return (
        "reclaim" in facts.actions
        and all(jobs[facts.queue_of(group)] > 1 for group in fewer)
        and any(jobs[facts.queue_of(group)] == 0 for group in more)
        and all(held[group] >= facts.minimum(group) for group in more)
    )


def _one_each(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether fewer pods of the same gangs are evicted, and each group with fewer places reaches
    its minimum all the same."""
    mine, other, held = facts.places(ours), facts.places(them), facts.held(ours)
    fewer = [group for group in other if mine[group] < other[group]]
    left, leaving = facts.by_group(ours.evicted), facts.by_group(them.evicted)
    return (
        "reclaim" in facts.actions
        and left < leaving
        and all(mine[group] <= other[group] for group in mine)
        and all(mine[group] and held[group] >= facts.minimum(group) for group in fewer)
    )


def _one_node(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether each group with fewer places was promised room, one of them on nodes whose victims
    alone leave its queue beyond its capability."""
    mine, other = facts.places(ours), facts.places(them)
    fewer = {group for group in other if mine[group] < other[group]}
    return (
        "preempt" in facts.actions
        and len(ours.evicted) < len(them.evicted)
        and fewer <= set(facts.by_group([*them.pipelined]))
        and any(_needs_others(facts, group, them) for group in fewer)
    )


def _needs_others(facts: Facts, group: str, them: Outcome) -> bool:
    """Whether its queue is beyond its capability without the victims on nodes where the group is
    promised nothing."""
    promised = {on for pod, on in them.pipelined.items() if facts.group_of[pod] == group}
    beside = [pod for pod in them.evicted if facts.node_of[pod] not in promised]
    queue = facts.queue_of(group)
    used = facts.used_by_queue(them)[queue]
    for pod in beside:
        if facts.queue_of(facts.group_of[pod]) == queue:
            used.update(requests(facts.pods[pod]))
    return bool(beside) and beyond(used, facts.queues[queue].get("capability") or {})


def _room_first(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Whether each group with fewer places was promised both room of victims and free room."""
    mine, other = facts.places(ours), facts.places(them)
    fewer = {group for group in other if mine[group] < other[group]}
    cleared = {facts.node_of[pod] for pod in them.evicted}
    beside = facts.by_group([pod for pod, on in them.pipelined.items() if on in cleared])
    free = facts.by_group([pod for pod, on in them.pipelined.items() if on not in cleared])
    return (
        "preempt" in facts.actions
        and "drf" in facts.plugins
        and bool(fewer)
        and len(ours.evicted) < len(them.evicted)
        and fewer <= beside.keys() & free.keys()
    )


def _assumed_requests(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """Some pod that runs, or is placed, asks for no memory or no cpu."""
    on_nodes = [name for name, on in facts.node_of.items() if on] + [*them.binds, *them.pipelined]
    return (
        "nodeorder" in facts.plugins
        and any({"cpu", "memory"} - requests(facts.pods[name]).keys() for name in on_nodes)
        and facts.without_nodes(ours) == facts.without_nodes(them)
    )


def _guarantee_of(spec: Json) -> Counter[str]:
    written = spec.get("guarantee") or {}
    return Counter(amounts(written.get("resource") or {}))


def _lacks(has: Mapping[str, int], needed: Mapping[str, int]) -> bool:
    return any(has.get(name, 0) < most for name, most in needed.items())


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
    Kind.GUARANTEE: _guarantee,
    Kind.GUARANTEE_DESERVED: _guarantee_deserved,
    Kind.SHARES_ABOVE: _shares_above,
    Kind.ASSUMED_REQUESTS: _assumed_requests,
    Kind.ROOM_IN_PART: _room_in_part,
    Kind.ROUNDED_SHARE: _rounded_share,
}
PROMISE_RULES: dict[Kind, Rule] = {
    Kind.LEFT_TO_ALLOCATE: _left_to_allocate,
    Kind.ONE_JOB_A_TURN: _one_job_a_turn,
    Kind.ONE_EACH: _one_each,
    Kind.ONE_NODE: _one_node,
    Kind.ROOM_FIRST: _room_first,
}
"""Rules about promises, which differ from places also where a service is compared."""


def _no_allocate(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    phases = {group.get("status", {}).get("phase") for group in facts.groups.values()}
    return "allocate" not in facts.actions and "Pending" in phases


def _free_capacity(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """The same and more, where a plugin keeps shares of queues. Who was promised room of victims
    may find it gone."""
    mine, other = facts.places(ours), facts.places(facts.whole(them))
    more = any(mine[group] > other[group] for group in mine)
    fewer = {group for group in other if mine[group] < other[group]}
    evicted, theirs = Counter(ours.evicted), Counter(them.evicted)
    same = evicted == theirs and not fewer
    gone = evicted < theirs and fewer <= facts.promised
    return more and (same or gone) and bool(facts.plugins & {"capacity", "proportion"})


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


def _surplus_later(facts: Facts, ours: Outcome, them: Outcome, _: Sequence[Outcome]) -> bool:
    """The same victims, and gangs with fewer places that have their minimum, and get the rest as
    the service goes on."""
    mine, other, held = facts.places(ours), facts.places(them), facts.held(ours)
    fewer = {group for group in other if mine[group] < other[group]}
    return (
        bool(fewer)
        and facts.by_group(ours.evicted) == facts.by_group(them.evicted) != Counter()
        and all(mine[group] <= other[group] for group in mine)
        and all(group in facts.promised and held[group] >= facts.minimum(group) for group in fewer)
        and facts.places(grown(facts.scenario)) >= other
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
    Kind.SURPLUS_LATER: _surplus_later,
}
