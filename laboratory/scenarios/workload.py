"""The workload of a seeded run: a small cluster, jobs of all kinds, groups, several queues."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.demands import HOSTNAME
from laboratory.workloads.manifests import manifest
from shard_worker.view.mode import Mode

CORES = 4
QUEUES = ("red", "green", "blue")
GUARANTEED = "red"
"""The queue with a guarantee, which evictions must respect if the policy says so."""
GUARANTEE = 3
LIMITED = "blue"
"""The queue with a capability; its jobs are no wider than that."""


@dataclass(frozen=True, slots=True)
class WorkloadSize:
    """The size of the workload; each field is a range."""

    nodes: tuple[int, int]
    jobs: tuple[int, int]
    groups: tuple[int, int]
    burst: int
    """Maximum number of jobs submitted together."""


SMALL = WorkloadSize(nodes=(3, 7), jobs=(6, 16), groups=(0, 2), burst=8)
LARGE = WorkloadSize(nodes=(6, 12), jobs=(20, 40), groups=(0, 4), burst=15)


def cluster(draw: Random, nodes: int, limits: dict[str, int]) -> tuple[Item, ...]:
    """Objects that exist from the start; every sixth node joins late."""
    setup: list[Item] = [node(number) for number in range(nodes) if number % 6 != 5]
    setup += [_queue(draw, name, limits[name]) for name in QUEUES]
    setup += [manifest("PriorityClass", "high", value=10)]
    return tuple(setup)


def widest_jobs(mode: Mode, nodes: int, shards: int, *, guaranteed: bool = False) -> dict[str, int]:
    """Queue -> the most tasks that a job may have and still fit. ``guaranteed``: other queues
    cannot use a queue's guarantee under the policy."""
    widest = nodes * CORES - (GUARANTEE if guaranteed else 0)
    if mode is Mode.HARD:  # a shard may have a node less than its part
        widest = min(widest, max(1, nodes // shards - 1) * CORES)
    return dict.fromkeys(QUEUES, widest) | {LIMITED: max(1, min(widest, nodes * CORES // 3))}


def workload(
    draw: Random, size: WorkloadSize, nodes: int, limits: dict[str, int]
) -> list[UserRequest]:
    """Jobs in bursts, groups member by member, and nodes that join, are cordoned and uncordoned."""
    jobs = [_job(draw, number, limits) for number in range(draw.randint(*size.jobs))]
    late = [node(number, late=True) for number in range(nodes) if number % 6 == 5]
    wishes = [UserRequest(draw.uniform(0, 0.3), tuple(late))] if late else []
    while jobs:
        many = draw.randint(1, size.burst)
        burst, jobs = jobs[:many], jobs[many:]
        wishes.append(UserRequest(draw.uniform(0.0, 1.0), tuple(burst)))
    for number in range(draw.randint(*size.groups)):
        wishes += _group(draw, number)
    return wishes + _cordons(draw, nodes)


# --- nodes and queues ---------------------------------------------------------------------------


def node(number: int, *, cordoned: bool = False, cores: int = CORES, late: bool = False) -> Item:
    labels = {"labels": {"joins": "late"}} if late else {}
    return manifest(
        "Node",
        f"n{number}",
        {"unschedulable": True} if cordoned else {},
        metadata=labels,
        status={"allocatable": {"cpu": str(cores), "memory": "16Gi", "pods": "110"}},
    )


def with_hostname(item: Item) -> Item:
    """Give a node its name as a label; other objects are unchanged."""
    if item["kind"] != "Node":
        return item
    metadata = item["metadata"]
    labels = {**metadata.get("labels", {}), HOSTNAME: metadata["name"]}
    return {**item, "metadata": {**metadata, "labels": labels}}


def _cordons(draw: Random, nodes: int) -> list[UserRequest]:
    """Nodes that are cordoned, or smaller, for some time."""
    wishes = []
    for number in draw.sample(range(nodes), 2):
        at = draw.uniform(0.05, 1.2)
        away = node(number, cordoned=True)
        if draw.random() < 0.4:
            away = node(number, cores=draw.randint(1, CORES - 1))
        wishes += [
            UserRequest(at, (away,)),
            UserRequest(at + draw.uniform(0.1, 0.5), (node(number),)),
        ]
    return wishes


def _queue(draw: Random, name: str, limit: int) -> Item:
    spec: Item = {"weight": draw.randint(1, 3)}
    if name == LIMITED:
        spec["capability"] = {"cpu": str(limit)}
    elif name == GUARANTEED:
        spec["guarantee"] = {"resource": {"cpu": str(GUARANTEE)}}
    return manifest("Queue", name, spec)


# --- groups -------------------------------------------------------------------------------------


def _group(draw: Random, number: int) -> list[UserRequest]:
    """A PodGroup whose members are submitted one by one, some later than it needs, some before the
    group."""
    minimum = draw.randint(1, 3)
    members = minimum + draw.randint(0, 3)
    start = draw.uniform(0.0, 1.0)
    spec: Item = {"minMember": minimum, "queue": draw.choice(QUEUES)}
    group: Item = manifest("PodGroup", f"g{number}", spec, namespace="ns")
    wishes = [UserRequest(start + draw.uniform(0.0, 0.1), (group,))]
    for member in range(members):
        at = start + draw.uniform(0.0, draw.choice([0.05, 0.5, 1.5]))
        wishes.append(UserRequest(at, (_pod(draw, f"g{number}-{member}", f"g{number}"),)))
    return wishes


def _pod(draw: Random, name: str, group: str) -> Item:
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "quadrant.dev/duration": draw.choice(["0.05", "0.3", "1"]),
    }
    return manifest(
        "Pod",
        name,
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        namespace="ns",
        metadata={"annotations": annotations},
    )


# --- jobs ---------------------------------------------------------------------------------------


def _job(draw: Random, number: int, limits: dict[str, int]) -> Item:
    """A gang, an elastic job or a single task, with one or two roles; sometimes as wide as
    possible."""
    queue = draw.choice(QUEUES)
    widest = limits[queue]
    width = max(1, min(draw.choice([1, 1, 1, 2, 3, 5, 8, widest // 2, widest]), widest))
    roles = [_role(draw, "a", width)]
    if width >= 2 and draw.random() < 0.3:
        part = draw.randint(1, width - 1)
        roles = [_role(draw, "a", part), _role(draw, "b", width - part)]
    minimum = width if draw.random() < 0.7 else draw.randint(1, width)
    spec: Item = {"queue": queue, "minAvailable": minimum, "tasks": roles}
    if draw.random() < 0.2:
        spec["priorityClassName"] = "high"
    return manifest("Job", f"j{number}", spec, namespace="ns")


def _role(draw: Random, name: str, replicas: int) -> Item:
    seconds = draw.choice(["0.05", "0.3", "1", "2"])
    minimum = {"minAvailable": draw.randint(0, replicas)} if draw.random() < 0.3 else {}
    return {
        **minimum,
        "name": name,
        "replicas": replicas,
        "template": {
            "metadata": {"annotations": {"quadrant.dev/duration": seconds}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        },
    }
