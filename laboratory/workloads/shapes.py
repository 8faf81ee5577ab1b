"""The shapes that ``quadrant bench`` measures: one table of cluster, load, policy and goal.

A shape loads a cluster, has what was there before run, and then submits its loads one after the
other. Under a policy of KAI's every node has eight GPUs; ``rich`` has what runs before, what is
measured belongs to ``poor``, and each has half of all GPUs as its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from laboratory.workloads.generators import (
    CPU,
    GPU,
    ClusterShape,
    Item,
    job_manifest,
    node_items,
    pod_items,
    pod_manifest,
    pod_template,
    role_of,
    wide_job,
)
from laboratory.workloads.manifests import kai_queue, manifest
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL
from shared.model.gpu_request import FRACTION
from shared.model.groups import NATIVE
from shared.policy.model import Dialect

CORES = 32
"""Cores of a node of ``basic`` and ``wide``."""
GPUS = 8
"""GPUs of a node."""
RICH, POOR, TEAM = "rich", "poor", "team"
GANG_WIDTH = 10
"""Whole nodes that a gang of ``consolidate`` asks for."""
RACK_NODES, BLOCK_RACKS = 16, 25
"""Nodes of a rack, racks of a block. The lowest level is the rack; above blocks is the hall."""
TOPOLOGY = "hall"
RACK = "rack"
LEVELS = ("hall", "block", RACK)
RACK_GANG = 64
"""Pods of one GPU: two such gangs fill a rack."""
NATIVE_RACK_NODES = 100
"""Nodes of a rack of ``native``, whose shapes are those of kube-scheduler's own benchmark."""
IDLE_PODS, IDLE_JOB = 35, 500
"""Pods of a node of ``idle``, and of one job."""
IDLE_CORES = 48
"""Cores of a node of ``idle``: more than its pods ask for."""
IDLE_SECONDS = 60.0
"""A minute has each of the periodic works in it, among them an audit of everything."""

OF_KAI = "dialect: kai\n"
"""KAI's built-in configuration."""
RECLAIMS = """\
actions: enqueue, allocate, reclaim
tiers:
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
  - name: conformance
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
"""Volcano's gang plugin gives no job of one task away, so that it has no say here; proportion
decides what each queue deserves."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods: int


class TimedUntil(StrEnum):
    """The moment until which a load is timed."""

    BIND = "bind"
    """The ledger recorded the last bind."""
    PLACE = "place"
    """The last task was bound, or had the promise of a place."""
    EVICTION = "eviction"
    """The cluster was told of the last eviction."""


def _zero(_: Size) -> int:
    return 0


def _nothing(_: Size) -> Iterator[Item]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Load:
    """One measured load. Keys of its jobs begin with ``prefix``."""

    name: str
    jobs: Callable[[Size], Iterator[Item]] = _nothing
    tasks: Callable[[Size], int] = _zero
    """How many of its tasks get a place."""
    prefix: str = "default/wants-"
    gpus: int = 0
    """GPUs of each of its tasks, which are those of the queue ``poor``; 0: it has no queue of its
    own, and its binds are counted."""
    displaced: Callable[[Size], int] = _zero
    """Tasks of before that lose their places for it."""
    least: bool = False
    """Whether more evictions than ``displaced`` are a fault."""
    until: TimedUntil = TimedUntil.BIND
    goals: Mapping[tuple[Dialect, int], float] | None = None
    """(dialect, nodes) -> seconds from the first submission."""
    seconds: float = 0.0
    """Above 0: nothing is submitted, and the processes are watched for as long."""


@dataclass(frozen=True, slots=True)
class BenchShape:
    size: Size
    """Where the user gives no other."""
    cluster: Callable[[Size, Dialect], Iterator[Item]]
    loads: tuple[Load, ...]
    policy: str | None = None
    """The text of the policy unless the user names one; None: the service's default."""
    before: Callable[[Size], Iterator[Item]] = _nothing
    """Objects that run before anything is measured."""
    running: Callable[[Size], int] = _zero
    """Tasks of these."""
    grows: bool = False
    """Whether the nodes have one GPU each until those tasks run."""
    most: Callable[[Size], int] | None = None
    """How many pods the nodes have room for, where the user may choose; None: their number follows
    from the nodes."""


# --- clusters -------------------------------------------------------------------------------------


def _cores(size: Size, dialect: Dialect) -> Iterator[Item]:
    del dialect
    return node_items(ClusterShape(size.nodes, CORES, CPU))


def _empty_gpus(size: Size, dialect: Dialect) -> Iterator[Item]:
    """Nodes with GPUs, and a leaf queue below another that may have all of them."""
    del dialect
    yield from node_items(ClusterShape(size.nodes, GPUS))
    yield kai_queue("all")
    yield kai_queue(TEAM, "all")


def two_queues(size: Size, dialect: Dialect) -> Iterator[Item]:
    """Nodes with GPUs, and both queues, each of which has a right to half of them."""
    yield from node_items(ClusterShape(size.nodes, GPUS))
    for name in (RICH, POOR):
        if dialect is Dialect.VOLCANO:
            yield manifest("Queue", name, {"weight": 1, "reclaimable": True})
        else:
            quota = size.nodes // 2 * GPUS
            yield kai_queue(name, gpu={"quota": quota, "overQuotaWeight": 1, "limit": -1})


def _one_gpu_each(size: Size, dialect: Dialect) -> Iterator[Item]:
    yield from node_items(ClusterShape(size.nodes, 1))
    yield from (item for item in two_queues(size, dialect) if item["kind"] != "Node")


def _racks(size: Size, dialect: Dialect) -> Iterator[Item]:
    """Nodes in racks, racks in blocks."""
    number = 0
    for item in two_queues(size, dialect):
        if item["kind"] == "Node":
            rack = number // RACK_NODES
            places = ("hall-0", f"block-{rack // BLOCK_RACKS}", f"rack-{rack}")
            item["metadata"]["labels"] |= dict(zip(LEVELS, places, strict=True))
            number += 1
        yield item
    levels = [{"nodeLabel": level} for level in LEVELS]
    yield manifest("KaiTopology", TOPOLOGY, {"levels": levels})


def _labelled_racks(size: Size, dialect: Dialect) -> Iterator[Item]:
    """Nodes with the label of their rack."""
    for number, item in enumerate(_cores(size, dialect)):
        item["metadata"]["labels"][RACK] = f"rack-{number // NATIVE_RACK_NODES}"
        yield item


def _wide_nodes(size: Size, dialect: Dialect) -> Iterator[Item]:
    """Nodes, and one queue that may have all of them."""
    del dialect
    yield from node_items(ClusterShape(size.nodes, IDLE_CORES, CPU))
    yield kai_queue(RICH)


# --- jobs -----------------------------------------------------------------------------------------


def _all_gpus(size: Size) -> int:
    return size.nodes * GPUS


def _half_the_gpus(size: Size) -> int:
    return size.nodes * GPUS // 2


def _half_the_nodes(size: Size) -> int:
    return size.nodes // 2


def _gpu_jobs(prefix: str, queue: str, count: int) -> Iterator[Item]:
    """Jobs of one task with one GPU."""
    template = pod_template(GPU, duration=None)
    for number in range(count):
        roles = [role_of(1, template)]
        yield job_manifest(f"{prefix}-{number:06d}", roles, minimum=1, queue=queue)


def _node_gang(name: str, width: int) -> Item:
    """Tasks of a whole node each, all of them or none."""
    template = pod_template(GPU, duration=None, amount=str(GPUS))
    return job_manifest(name, [role_of(width, template)], minimum=width, queue=POOR)


def kai_pods(count: int, *, halves: bool = False) -> Iterator[Item]:
    """Pods of KAI's scheduler, each a job of its own with one GPU, or half of one, that run until
    deleted."""
    # A pod that shares a GPU names the part, and no whole GPUs.
    pods = pod_items(count) if halves else pod_items(count, resource=GPU)
    for pod in pods:
        metadata = pod["metadata"] | {"labels": {QUEUE_LABEL: TEAM}}
        if halves:
            annotations = metadata.get("annotations") or {}
            metadata["annotations"] = annotations | {FRACTION: "0.5"}
        yield {
            **pod,
            "metadata": metadata,
            "spec": pod["spec"] | {"schedulerName": "kai-scheduler"},
        }


def gangs_that_fit(size: Size) -> int:
    """41 of 500 nodes."""
    return size.nodes * 41 // 500


def _gangs_of_nodes(size: Size) -> Iterator[Item]:
    for number in range(gangs_that_fit(size)):
        yield _node_gang(f"wants-{number:03d}", GANG_WIDTH)


def _rack_gangs(size: Size) -> int:
    """200 in 10,000 nodes."""
    return max(1, size.nodes // 50)


def _gangs_of_a_rack(size: Size) -> Iterator[Item]:
    """PodGroups of KAI's, each of whose pods have to be in one rack."""
    template = pod_template(GPU, duration=None)
    template["metadata"]["labels"] = {QUEUE_LABEL: POOR}
    template["spec"]["schedulerName"] = "kai-scheduler"
    for number in range(_rack_gangs(size)):
        name = f"wants-{number:03d}"
        constraint = {"topology": TOPOLOGY, "requiredTopologyLevel": "rack"}
        spec = {"minMember": RACK_GANG, "queue": POOR, "topologyConstraint": constraint}
        yield manifest("KaiPodGroup", name, spec, namespace="default")
        for member in range(RACK_GANG):
            yield pod_manifest(f"{name}-{member}", template, annotations={GROUP_NAME: name})


def _native_gangs(width: int, count: int) -> Iterator[Item]:
    """Kubernetes' own PodGroups, each of whose pods have to be in one rack."""
    template = pod_template(CPU, duration=None)
    for number in range(count):
        name = f"wide{width}-{number:04d}"
        policy = {"gang": {"minCount": width}}
        constraints = {"topology": [{"key": RACK}]}
        spec = {"schedulingPolicy": policy, "schedulingConstraints": constraints}
        yield manifest(NATIVE, name, spec, namespace="default")
        grouped = template["spec"] | {"schedulingGroup": {"podGroupName": name}}
        for member in range(width):
            yield pod_manifest(f"{name}-{member}", template | {"spec": grouped})


def _native_load(width: int, count: int, rate: float) -> Load:
    """``count`` gangs in 5,000 nodes, and of other numbers as many in proportion. ``rate``: pods a
    second that kube-scheduler's developers measured."""

    def gangs(size: Size) -> int:
        return size.nodes * count // 5_000

    return Load(
        f"gangs of {width:,}, each in one rack",
        lambda size: _native_gangs(width, gangs(size)),
        lambda size: gangs(size) * width,
        prefix=f"default/wide{width}-",
        goals={(Dialect.VOLCANO, 5_000): count * width / (5 * rate)},
    )


def _idle_tasks(size: Size) -> int:
    return size.nodes * IDLE_PODS


def _idle_jobs(size: Size) -> Iterator[Item]:
    """Gangs of pods that run until they are deleted."""
    template = pod_template(CPU, duration=None)
    left = _idle_tasks(size)
    while left:
        width = min(IDLE_JOB, left)
        left -= width
        roles = [role_of(width, template)]
        yield job_manifest(f"runs-{left:06d}", roles, minimum=width, queue=RICH)


# --- the table ------------------------------------------------------------------------------------


def _pods(size: Size) -> int:
    return size.pods


_SEPARATE_AND_WIDE = (
    Load("separate pods", lambda size: pod_items(size.pods), _pods, prefix="default/pod-"),
    Load("one Job", lambda size: iter([wide_job(size.pods)]), _pods, prefix="default/job-"),
)

SHAPES: Mapping[str, BenchShape] = {
    "basic": BenchShape(
        size=Size(5_000, 10_000),
        cluster=_cores,
        loads=_SEPARATE_AND_WIDE,
        most=lambda size: size.nodes * CORES // 2,
    ),
    "wide": BenchShape(
        size=Size(100_000, 100_000),
        cluster=_cores,
        loads=_SEPARATE_AND_WIDE,
        most=lambda size: size.nodes * CORES // 2,
    ),
    "fill": BenchShape(
        size=Size(500, 4_000),
        cluster=_empty_gpus,
        policy=OF_KAI,
        loads=(
            Load(
                "one-GPU jobs",
                lambda size: kai_pods(size.pods),
                _pods,
                prefix="default/pod-",
                goals={(Dialect.KAI, 500): 3.0},
            ),
        ),
        most=_all_gpus,
    ),
    "fractions": BenchShape(
        size=Size(1_000, 16_000),
        cluster=_empty_gpus,
        policy=OF_KAI,
        loads=(
            Load(
                "half-GPU jobs",
                lambda size: kai_pods(size.pods, halves=True),
                _pods,
                prefix="default/pod-",
                goals={(Dialect.KAI, 1_000): 16_000 / 3_000},  # 3,000 a second
            ),
        ),
        most=lambda size: 2 * _all_gpus(size),
    ),
    "reclaim": BenchShape(
        size=Size(1_000, 8_000),
        cluster=two_queues,
        policy=RECLAIMS,
        before=lambda size: _gpu_jobs("one", RICH, _all_gpus(size)),
        running=_all_gpus,
        loads=(
            Load(
                "gang of half of the nodes",
                lambda size: iter([_node_gang("wants-all", size.nodes // 2)]),
                _half_the_nodes,
                gpus=GPUS,
                displaced=lambda size: size.nodes // 2 * GPUS,
                least=True,
                until=TimedUntil.EVICTION,
                goals={
                    (Dialect.VOLCANO, 1_000): 2.0,
                    (Dialect.KAI, 500): 1.0,
                    (Dialect.KAI, 1_000): 3.0,
                },
            ),
        ),
    ),
    "reclaim-many": BenchShape(
        size=Size(500, 4_000),
        cluster=two_queues,
        policy=OF_KAI,
        before=lambda size: _gpu_jobs("one", RICH, _all_gpus(size)),
        running=_all_gpus,
        loads=(
            Load(
                "one-GPU jobs",
                lambda size: _gpu_jobs("wants", POOR, _all_gpus(size)),
                _half_the_gpus,
                gpus=1,
                displaced=_half_the_gpus,
                goals={(Dialect.KAI, 500): 30.0},
            ),
        ),
    ),
    "consolidate": BenchShape(
        size=Size(500, 500),
        cluster=_one_gpu_each,
        grows=True,
        policy=OF_KAI,
        before=lambda size: _gpu_jobs("one", RICH, size.nodes),
        running=lambda size: size.nodes,
        loads=(
            Load(
                "gangs of ten whole nodes",
                _gangs_of_nodes,
                lambda size: gangs_that_fit(size) * GANG_WIDTH,
                gpus=GPUS,
                until=TimedUntil.PLACE,
                goals={(Dialect.KAI, 500): 10.0},
            ),
        ),
    ),
    "topology": BenchShape(
        size=Size(10_000, 12_800),
        cluster=_racks,
        policy=OF_KAI,
        loads=(
            Load(
                "gangs of 64, each in one rack",
                _gangs_of_a_rack,
                lambda size: _rack_gangs(size) * RACK_GANG,
                gpus=1,
                goals={(Dialect.KAI, 10_000): 5.0},
            ),
        ),
    ),
    "native": BenchShape(
        size=Size(5_000, 6_000),
        cluster=_labelled_racks,
        loads=(_native_load(4, 750, 630), _native_load(1_000, 3, 975)),
    ),
    "idle": BenchShape(
        size=Size(4_000, 140_000),
        cluster=_wide_nodes,
        policy=OF_KAI,
        before=_idle_jobs,
        running=_idle_tasks,
        loads=(Load("nothing waits", seconds=IDLE_SECONDS),),
    ),
}
"""Name of the benchmark -> its shape."""
