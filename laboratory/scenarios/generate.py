"""Generates scenarios from seeds: mostly small ones, sometimes a larger one."""

from __future__ import annotations

from random import Random

from laboratory.scenarios.churn import (
    churn,
    clean_up,
    clean_up_groups,
    clear_away,
    lasting,
)
from laboratory.scenarios.contended import contended, policy
from laboratory.scenarios.demands import demanding
from laboratory.scenarios.every_plugin import every_plugin
from laboratory.scenarios.kai import under_kai
from laboratory.scenarios.restarting import restarting
from laboratory.scenarios.workload import (
    LARGE,
    QUEUES,
    SMALL,
    cluster,
    widest_jobs,
    workload,
)
from laboratory.simulation.scenario import (
    Fault,
    FaultKind,
    Item,
    PolicyChange,
    Scenario,
    UserRequest,
)
from laboratory.simulation.virtual_time import Network
from laboratory.workloads.manifests import manifest
from shard_worker.view.mode import Mode

LARGE_EVERY = 16
"""One in this many seeds is large."""

STUCK = 0.25
"""Fraction of the seeds in which the leader's event loop hangs once."""

WHOLE_EVERY = 4
"""Every Nth group of three seeds has a policy that evicts."""

DRAWN_EVERY = 8
"""Every Nth group of three seeds has a policy of plugins drawn from the registry."""

KAI_EVERY = 8
"""Every Nth group of three seeds has a KAI policy."""

CHANGING_EVERY = 8
"""In one of this many seeds the policy changes while jobs run."""

LASTING_EVERY = 8
"""In one of this many seeds gangs keep running after everything else, longer than the repair of a
broken gang may take. Each costs 40 s of virtual time."""


def scenario(seed: int) -> Scenario:
    """The scenario of a seed. The three modes alternate with the seed; all else is drawn from
    it."""
    draw = Random(seed)
    size = LARGE if seed % LARGE_EVERY == LARGE_EVERY - 1 else SMALL
    mode = (Mode.NONE, Mode.SOFT, Mode.HARD)[seed % 3]
    nodes = draw.randint(*size.nodes)
    shards = min(draw.choice([2, 2, 2, 3]), nodes)
    changing = seed % CHANGING_EVERY == CHANGING_EVERY - 3
    limits = widest_jobs(mode, nodes, shards, guaranteed=whole_policy(seed) or changing)
    setup = cluster(draw, nodes, limits)
    wishes = workload(draw, size, nodes, limits)
    rules: Item = {}
    later: tuple[Item, ...] = ()
    usage: dict[str, dict[str, float]] = {}
    if drawn_policy(seed):
        apart = Random(seed + 9_000_003)
        setup, wishes = contended(apart, setup, wishes, mode=mode, shards=shards)
        drawn = every_plugin(apart, setup, wishes)
        setup, wishes = drawn.setup, drawn.wishes
        rules, later, usage = drawn.policy, drawn.later, drawn.usage
    elif whole_policy(seed):
        apart = Random(seed + 3_000_003)
        rules = policy(apart)
        setup, wishes = contended(apart, setup, wishes, mode=mode, shards=shards)
    if seed % 5 in (1, 3) and not drawn_policy(seed) and not kai_policy(seed):
        asking = Random(seed + 4_000_003)
        setup, wishes = demanding(asking, setup, wishes, mode=mode, shards=shards)
    wishes += churn(Random(seed + 2_000_003), setup, wishes, QUEUES)
    if seed % LASTING_EVERY == LASTING_EVERY - 2:
        wishes += lasting(Random(seed + 5_000_003), wishes, QUEUES)
    wishes += draining(Random(seed + 7_000_003), setup)
    wishes = restarting(Random(seed + 8_000_003), wishes)
    faults = (*_faults(Random(seed + 1_000_003), shards), *_stuck(seed))
    evicting = not rules and not kai_policy(seed) and seed // 3 % 2 == 1
    if drawn_policy(seed) or kai_policy(seed):
        wishes += clear_away(wishes)
    elif any(fault.kind is FaultKind.TASKS_LOST for fault in faults):
        groups = clean_up_groups(wishes)
        if rules or changing or evicting or any(wish.drain for wish in wishes):
            wishes += clean_up(wishes)
        wishes += groups
    if kai_policy(seed):
        translated = under_kai(seed + 10_000_003, setup, wishes)
        setup, wishes = translated.setup, translated.wishes
        rules, later = translated.policy, translated.later
        # Of every three such seeds the mode is that of their number, and so would be this.
        changing = Random(seed + 11_000_003).random() < 1 / CHANGING_EVERY
    return Scenario(
        seed=seed,
        mode=mode,
        shards=shards,
        network=_network(draw),
        faulty=seed % 7 in (1, 3),
        setup=setup,
        wishes=tuple(wishes),
        faults=faults,
        standby=seed % 5 > 1,
        evicting=evicting,
        policy=rules,
        policy_changes=_policy_changes(Random(seed + 6_000_003), later) if changing else (),
        usage=usage,
    )


def whole_policy(seed: int) -> bool:
    """Whether the seed's policy evicts; covers each mode, with and without cluster faults."""
    return seed // 3 % WHOLE_EVERY == 2


def drawn_policy(seed: int) -> bool:
    """Whether the seed's policy is drawn from all plugins; else it would be the default policy, and
    no worker would evict."""
    return seed // 3 % DRAWN_EVERY == 4


def kai_policy(seed: int) -> bool:
    """Whether the seed's policy is one of KAI's; else it would be the default policy, and workers
    would evict."""
    return seed // 3 % KAI_EVERY == 5


def _policy_changes(draw: Random, drawn: tuple[Item, ...]) -> tuple[PolicyChange, ...]:
    """One or two changes while most jobs are pending or running. ``drawn``: the policies to change
    to; empty: any under which everything binds in the end."""
    times = sorted(draw.uniform(0.05, 2.0) for _ in range(draw.randint(1, 2)))
    policies = drawn or tuple(policy(draw) for _ in times)
    return tuple(PolicyChange(at, change) for at, change in zip(times, policies, strict=False))


def _network(draw: Random) -> Network:
    """A slow or fast network that loses no, few or many messages."""
    slow, lost = draw.choice([0.3, 1.0, 4.0]), draw.choice([0.0, 1.0, 1.0, 3.0])
    return Network(
        call=0.002 * slow,
        ledger=0.003 * slow,
        cluster=0.004 / slow,
        request_lost=0.01 * lost,
        answer_lost=0.03 * lost,
        echo=0.03 * lost,
    )


_MOSTLY = {
    FaultKind.WORKER_KILLED: 3,
    FaultKind.WORKER_PAUSED: 3,
    FaultKind.LEADER_KILLED: 3,
    FaultKind.LEADER_PAUSED: 4,
    FaultKind.STANDBY_KILLED: 1,
    FaultKind.STANDBY_PAUSED: 1,
    FaultKind.CLOCK_JUMPED: 1,
    FaultKind.SERVER_RESTARTED: 3,
    FaultKind.SERVER_AWAY: 1,
    FaultKind.CLUSTER_AWAY: 1,
    FaultKind.TASKS_LOST: 1,
}


def _faults(draw: Random, shards: int) -> list[Fault]:
    """No, some or many faults, some of them close together."""
    faults: list[Fault] = []
    at = 0.0
    for _ in range(draw.choice([0, 1, 2, 3, 4, 6])):
        near = draw.random() < 0.3
        at = at + draw.uniform(0, 0.05) if near else draw.uniform(0.005, 1.8)
        (kind,) = draw.choices(list(_MOSTLY), list(_MOSTLY.values()))
        faults.append(Fault(kind, at, _seconds(draw, kind), draw.randrange(shards)))
    return faults


def _stuck(seed: int) -> list[Fault]:
    """For one seed in four, a hang of the leader's loop, shorter or longer than a leader may
    be silent."""
    draw = Random(seed + 4_000_003)
    if draw.random() >= STUCK:
        return []
    seconds = draw.choice([draw.uniform(0.1, 1.0), draw.uniform(2.0, 3.0)])
    return [Fault(FaultKind.LEADER_STUCK, draw.uniform(0.1, 1.0), seconds)]


def _seconds(draw: Random, kind: FaultKind) -> float:
    match kind:
        case FaultKind.WORKER_KILLED | FaultKind.SERVER_RESTARTED | FaultKind.TASKS_LOST:
            return 0.0
        case FaultKind.CLOCK_JUMPED:
            return draw.choice([draw.uniform(-3.0, 3.0), draw.uniform(-0.3, 0.3)])
        case FaultKind.LEADER_KILLED | FaultKind.STANDBY_KILLED:
            return draw.choice([0.0, draw.uniform(0.0, 0.3)])
        case (
            FaultKind.WORKER_PAUSED
            | FaultKind.LEADER_PAUSED
            | FaultKind.LEADER_STUCK
            | FaultKind.STANDBY_PAUSED
        ):
            return draw.choice([draw.uniform(0.0, 0.3), draw.uniform(0.5, 1.0)])
        case FaultKind.SERVER_AWAY | FaultKind.CLUSTER_AWAY:
            return draw.uniform(0.02, 0.6)


DRAINED = 0.25
"""Fraction of the seeds in which nodes are drained."""

BUDGETED = 0.6
"""Fraction of those in which disruption budgets count all pods of a namespace."""


def draining(draw: Random, setup: tuple[Item, ...]) -> list[UserRequest]:
    """One or two drains while jobs come in; none in most seeds. Each node is given back, so that
    everything fits in the end."""
    if draw.random() >= DRAINED:
        return []
    nodes = [item for item in setup if item["kind"] == "Node"]
    wishes: list[UserRequest] = []
    if draw.random() < BUDGETED:
        wishes.append(UserRequest(draw.uniform(0, 0.1), (_budget(draw),)))
    for node in draw.sample(nodes, min(len(nodes), draw.randint(1, 2))):
        at = draw.choice([draw.uniform(0.05, 0.5), draw.uniform(0.05, 2.0)])
        cordoned = {**node, "spec": {**node.get("spec", {}), "unschedulable": True}}
        wishes.append(UserRequest(at, (cordoned,)))
        wishes.append(UserRequest(at + draw.choice([0.0, 0.01]), drain=node["metadata"]["name"]))
        wishes.append(UserRequest(at + draw.uniform(0.3, 2.0), (node,)))
    return wishes


def _budget(draw: Random) -> Item:
    limit: Item = draw.choice([{"minAvailable": 1}, {"maxUnavailable": 2}, {"minAvailable": "30%"}])
    return manifest("PodDisruptionBudget", "drained", {**limit, "selector": {}}, namespace="ns")
