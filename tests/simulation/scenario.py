"""A seeded scenario: a small cluster, jobs of all kinds, several queues, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from coordinator.checker import CheckReport, check
from coordinator.cluster.faulty import Faults, FaultyCluster
from coordinator.cluster.kubelets import Kubelets
from coordinator.cluster.local import LocalCluster
from coordinator.core import Coordinator
from coordinator.dispatch import Dispatcher
from coordinator.history import HistoryFile
from coordinator.objects.document import Key
from coordinator.order import Order
from coordinator.simulation import Network, Simulation
from shard_worker.session import open_session
from shard_worker.task_class import Mode
from shared.policy import DEFAULT_POLICY
from tests.simulation.churn import churn

Item = dict[str, Any]

CORES = 4
QUEUES = ("red", "green", "blue")
LIMITED = "blue"
"""This queue has a capability, and no job wider than that."""
FAULTS = Faults(
    refuse=0.05,
    unknown_before=0.05,
    unknown_after=0.05,
    silent_before=0.05,
    silent_after=0.05,
    duplicate=0.2,
)
UNTIL = 1_600.0
"""A run that has not ended by then (it begins at 1000 s, jobs run a second or two) never will."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything follows from the seed; ``mode`` runs through the three with it."""

    seed: int
    mode: Mode
    shards: int
    nodes: int
    batches: list[tuple[float, list[Item]]]
    """(seconds after the start, objects)."""
    network: Network
    faulty: bool
    kills: list[tuple[int, float]] = field(default_factory=list)
    """(shard, seconds)."""
    pauses: list[tuple[int, float, float]] = field(default_factory=list)
    """(shard, seconds, for how long)."""
    crashes: list[tuple[int, float]] = field(default_factory=list)
    """(event of the run, seconds until a successor starts): the coordinator's."""
    restarts: list[float] = field(default_factory=list)
    """Seconds: the ledger's server."""
    deletes: list[tuple[float, Key]] = field(default_factory=list)
    """(seconds, object)."""


def scenario(seed: int) -> Scenario:
    draw = Random(seed)
    mode = (Mode.NONE, Mode.SOFT, Mode.HARD)[seed % 3]
    shards = draw.choice([2, 2, 2, 3])
    nodes = draw.randint(6, 12)
    kills = [(draw.randrange(shards), draw.uniform(0.01, 1.5)) for _ in range(seed % 4 // 2)]
    pauses = [(draw.randrange(shards), draw.uniform(0.01, 1.0), 0.8)] if seed % 5 == 0 else []
    more = Random(seed + 1_000_003)  # drawn apart
    batches = _batches(draw, mode, nodes, shards)
    batches += [
        *_cordons(more, nodes),
        *[part for number in range(more.randint(0, 4)) for part in _group(more, number)],
    ]
    changes = churn(Random(seed + 2_000_003), batches, QUEUES)
    return Scenario(
        seed=seed,
        mode=mode,
        shards=shards,
        nodes=nodes,
        batches=batches + changes.batches,
        deletes=changes.deletes,
        network=_network(draw),
        faulty=seed % 7 in (1, 3),
        kills=kills,
        pauses=pauses,
        crashes=_crashes(more) if seed % 2 else [],
        restarts=[more.uniform(0.01, 1.5) for _ in range(more.choice([0, 0, 1, 2]))],
    )


def _crashes(draw: Random) -> list[tuple[int, float]]:
    """Early or late, once or more; the last ones may hit a successor that is just starting."""
    event = draw.choice([draw.randint(1, 300), draw.randint(1, 1500)])
    crashes = [(event, draw.choice([0.0, draw.uniform(0.0, 0.3)]))]
    while draw.random() < 0.4:
        event += draw.choice([draw.randint(1, 60), draw.randint(1, 800)])
        crashes.append((event, draw.uniform(0.0, 0.3)))
    return crashes


def _network(draw: Random) -> Network:
    slow = draw.choice([0.3, 1.0, 4.0])
    return Network(call=0.002 * slow, ledger=0.003 * slow, cluster=0.004 / slow)


# --- objects ----------------------------------------------------------------------------------


def _batches(draw: Random, mode: Mode, nodes: int, shards: int) -> list[tuple[float, list[Item]]]:
    """The cluster first, then the jobs in bursts, then nodes that are cordoned and freed again."""
    widest = nodes * CORES
    if mode is Mode.HARD:  # a shard may have a node less than its part
        widest = max(1, nodes // shards - 1) * CORES
    limits = dict.fromkeys(QUEUES, widest) | {LIMITED: max(1, min(widest, nodes * CORES // 3))}
    jobs = [_job(draw, number, limits) for number in range(draw.randint(20, 40))]
    late = [_node(number) for number in range(nodes) if number % 6 == 5]
    setup: list[Item] = [_node(number) for number in range(nodes) if number % 6 != 5]
    setup += [_queue(draw, name, limits[name]) for name in QUEUES]
    setup += [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 10,
        }
    ]
    batches = [(0.0, setup), (draw.uniform(0, 0.3), late)]
    while jobs:
        size = draw.randint(1, 15)
        burst, jobs = jobs[:size], jobs[size:]
        batches.append((draw.uniform(0.0, 1.0), burst))
    return batches + _cordons(draw, nodes)


def _cordons(draw: Random, nodes: int) -> list[tuple[float, list[Item]]]:
    batches = []
    for number in draw.sample(range(nodes), 2):
        at = draw.uniform(0.05, 1.2)
        batches.append((at, [_node(number, cordoned=True)]))
        batches.append((at + draw.uniform(0.1, 0.5), [_node(number)]))
    return batches


def _group(draw: Random, number: int) -> list[tuple[float, list[Item]]]:
    """A PodGroup whose members come one after the other, some later than it needs, some earlier
    than itself."""
    minimum = draw.randint(1, 3)
    members = minimum + draw.randint(0, 3)
    start = draw.uniform(0.0, 1.0)
    spec: Item = {"minMember": minimum, "queue": draw.choice(QUEUES)}
    group: Item = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"g{number}", "namespace": "ns"},
        "spec": spec,
    }
    batches = [(start + draw.uniform(0.0, 0.1), [group])]
    for member in range(members):
        at = start + draw.uniform(0.0, draw.choice([0.05, 0.5, 1.5]))
        batches.append((at, [_pod(draw, f"g{number}-{member}", f"g{number}")]))
    return batches


def _pod(draw: Random, name: str, group: str) -> Item:
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "quadrant.dev/duration": draw.choice(["0.05", "0.3", "1"]),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }


def _node(number: int, *, cordoned: bool = False) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}"},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}},
    }


def _queue(draw: Random, name: str, limit: int) -> Item:
    spec: Item = {"weight": draw.randint(1, 3)}
    if name == LIMITED:
        spec["capability"] = {"cpu": str(limit)}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _job(draw: Random, number: int, limits: dict[str, int]) -> Item:
    """One role or two; a gang, an elastic job or a single task; now and then as wide as can be."""
    queue = draw.choice(QUEUES)
    widest = limits[queue]
    width = min(draw.choice([1, 1, 1, 2, 3, 5, 8, widest // 2, widest]), widest)
    roles = [_role(draw, "a", width)]
    if width >= 2 and draw.random() < 0.3:
        part = draw.randint(1, width - 1)
        roles = [_role(draw, "a", part), _role(draw, "b", width - part)]
    minimum = width if draw.random() < 0.7 else draw.randint(1, width)
    spec: Item = {"queue": queue, "minAvailable": minimum, "tasks": roles}
    if draw.random() < 0.2:
        spec["priorityClassName"] = "high"
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"j{number}", "namespace": "ns"},
        "spec": spec,
    }


def _role(draw: Random, name: str, replicas: int) -> Item:
    seconds = draw.choice(["0.05", "0.3", "1", "2"])
    own = {"minAvailable": draw.randint(0, replicas)} if draw.random() < 0.3 else {}
    return {
        **own,
        "name": name,
        "replicas": replicas,
        "template": {
            "metadata": {"annotations": {"quadrant.dev/duration": seconds}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        },
    }


# --- running it -------------------------------------------------------------------------------


def build(wanted: Scenario, history: HistoryFile | None = None) -> Simulation:
    def core() -> Coordinator:
        order = Order(open_session(DEFAULT_POLICY), window=16, walls=wanted.mode is Mode.HARD)
        return Coordinator(order, Dispatcher(wanted.shards, turns_per_call=4))

    local = LocalCluster(grace=0.05)
    kubelets: Kubelets = FaultyCluster(local, FAULTS, wanted.seed) if wanted.faulty else local
    simulation = Simulation(
        core,
        session=lambda: open_session(DEFAULT_POLICY),
        kubelets=kubelets,
        mode=wanted.mode,
        seed=wanted.seed,
        network=wanted.network,
        history=history,
    )
    for at, items in wanted.batches:
        simulation.submit(items, at=at)
    for at, key in wanted.deletes:
        simulation.delete(key, at=at)
    for shard, at in wanted.kills:
        simulation.kill_worker(shard, at=at)
    for shard, at, seconds in wanted.pauses:
        simulation.pause_worker(shard, at=at, seconds=seconds)
    for event, away in wanted.crashes:
        simulation.crash_coordinator(event=event, away=away)
    for at in wanted.restarts:
        simulation.restart_server(at=at)
    return simulation


def run(wanted: Scenario, path: Path) -> tuple[Simulation, CheckReport]:
    """Run to the end; the history is left at ``path`` and checked as that of a closed run."""
    history = HistoryFile(path)
    simulation = build(wanted, history)
    simulation.run(until=UNTIL)
    history.close()
    return simulation, check(path, closed=True)
