"""Whole sessions, evictions and all, over random clusters: what keeps to a node is kept to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import OCCUPYING, Status
from shared.model.constraints import Constraints, PodTerm, Spread, Taint
from shared.model.devices import ResourceClaimTemplate
from tests.examples import examples
from tests.shard_worker.kube_scheduler import test_devices, test_volumes
from tests.shard_worker.kube_scheduler.test_devices import DRIVER, ask, gpu, slice_of, with_devices
from tests.shard_worker.kube_scheduler.test_inter_pod import meant
from tests.shard_worker.kube_scheduler.test_volumes import MADE, STATIC, on, storage, volume
from tests.shard_worker.neighbourhood import HOST, ZONE, label, marked

HERE = OCCUPYING | Status.PIPELINED
TIERS = [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder", "binpack"]]


def random_cluster(rnd: random.Random) -> Cluster:
    aware = {"preempt": {"enableTopologyAwarePreemption": rnd.random() < 0.5}}
    cluster = Cluster(
        tiers=TIERS,
        actions=("enqueue", "allocate", "backfill", "preempt", "reclaim"),
        arguments=aware,  # type: ignore[arg-type]
    )
    nodes = [f"n{i}" for i in range(rnd.randint(1, 5))]
    for name in nodes:
        labels = {ZONE: rnd.choice("ab")} if rnd.random() < 0.8 else {}
        taints = (Taint("k", "", "NoSchedule"),) if rnd.random() < 0.1 else ()
        size = {"cpu": rnd.randint(1, 6), "pods": rnd.randint(2, 6)}
        cluster.node(name, labels=labels, taints=taints, **size)  # type: ignore[arg-type]
    cluster.queue("default")
    cluster.queue("other", weight=2)
    storage(
        cluster,
        rnd.choice([STATIC, MADE]),
        *(volume(f"v{i}", affinity=on(rnd.choice(nodes))) for i in range(3)),
        *(test_volumes.claim(f"p{i}") for i in range(4)),
    )
    with_devices(
        cluster,
        *(slice_of(name, *(gpu(f"g{i}") for i in range(rnd.randint(0, 3)))) for name in nodes),
        *(test_devices.claim(f"d{i}", ask(rnd.randint(1, 2))) for i in range(4)),
        ResourceClaimTemplate("default", "t", test_devices.claim("x").requests),
    )
    for i in range(rnd.randint(2, 8)):
        _random_job(cluster, rnd, f"j{i}", nodes)
    return cluster


def _random_job(cluster: Cluster, rnd: random.Random, name: str, nodes: list[str]) -> None:
    app, tasks = rnd.choice("xyz"), rnd.randint(1, 4)
    keys = [ZONE, HOST]
    terms = [
        PodTerm(rnd.choice(keys), label("app", rnd.choice("xyz")), anti=rnd.random() < 0.7)
        for _ in range(rnd.choice([0, 0, 1, 2]))
    ]
    spreads = [Spread(rnd.choice(keys), hard=rnd.random() < 0.5, selector=label("app", app))]
    rules = Constraints(
        pod_terms=tuple(terms),
        spreads=tuple(spreads[: rnd.randint(0, 1)]),
        volumes=(f"p{rnd.randrange(4)}",) * (rnd.random() < 0.3),
        claims=(f"d{rnd.randrange(4)}",) * (rnd.random() < 0.3),
        claim_templates=("t",) * (rnd.random() < 0.2),
    )
    cluster.job(
        name,
        tasks=tasks,
        minimum=rnd.randint(1, tasks),
        cpu=rnd.choice([0, 1, 2]),
        on=[rnd.choice(nodes) for _ in range(rnd.choice([0, 0, 1, 2, 3]))][:tasks],
        rules={"constraints": rules},
        members=marked(app=app),
        queue=rnd.choice(["default", "other"]),
        priority=rnd.randint(0, 3),
        phase=rnd.choice(["Pending", "Inqueue", "Running"]),
    )


def kept_apart(session: Session, one: TaskInfo, other: TaskInfo) -> Iterator[PodTerm]:
    """Conditions of one task that the other breaks."""
    world = session.world
    for term in one.cls.constraints.pod_terms if one.cls.constraints is not None else ():
        here, there = (world.node(t.row).labels.get(term.topology_key) for t in (one, other))
        if term.anti and here is not None and here == there and meant(term, other):
            yield term


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_every_placed_task_obeys_its_affinity_devices_and_volumes(seed: int) -> None:
    session = random_cluster(random.Random(seed)).open()
    waiting = [t for t in session.world.tasks() if t.status is Status.PENDING]
    run_actions(session)
    there = [t for t in session.world.tasks() if t.row >= 0 and t.status & HERE]
    placed = [t for t in waiting if t in there]
    for task in placed:
        for other in there:
            if other is not task:
                assert not list(kept_apart(session, task, other))
                assert not list(kept_apart(session, other, task))
    _judge_devices(session, placed)
    _judge_volumes(session, placed)


def _judge_devices(session: Session, placed: list[TaskInfo]) -> None:
    dra = test_devices.dra_of(session)
    given_to: dict[Any, str] = {}
    for task in placed:
        asks = task.cls.constraints
        assert asks is not None
        assert bool(dra.got(task)) is bool(asks.claims or asks.claim_templates)
        for device in dra.got(task):
            assert given_to.setdefault(device.offer.key, device.claim) == device.claim
            assert device.offer.driver == DRIVER and device.offer.pool == f"n{task.row}"


def _judge_volumes(session: Session, placed: list[TaskInfo]) -> None:
    binding = test_volumes._binding(session)
    owners: dict[str | None, str] = {}
    for task in placed:
        for choice in binding.choices(task):
            if choice.volume is not None:
                assert owners.setdefault(choice.volume, choice.claim) == choice.claim
                reach = session.world.objects.volumes[choice.volume].affinity
                assert reach == on(f"n{task.row}")
