"""Searches for victims on random clusters: counts and signatures change no outcome, what fails
leaves no trace, and nothing is promised twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.run import run_action
from shard_worker.dialects.kai.devices import device_columns
from shard_worker.dialects.kai.search import task_kinds
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.status import Status
from shared.model.gpu_request import WHOLE
from tests.examples import examples
from tests.shard_worker.dialects.kai.clusters import KaiCluster, image

QUEUES = ("a", "b", "c")
EVICTING = ("consolidation", "reclaim", "preempt")


@dataclass(frozen=True)
class DrawnRunning:
    queue: str
    priority: int
    spare: int
    """Tasks beyond its minimum."""
    app: str


@dataclass(frozen=True)
class Waiting:
    queue: str
    priority: int
    tasks: int
    gpus: int
    spare: int
    away_from: str
    """No node with a pod of this app will do."""


@dataclass(frozen=True)
class DrawnSearch:
    quotas: tuple[int, ...]
    running: tuple[DrawnRunning, ...]
    nodes: tuple[tuple[int | None, ...], ...]
    """Device by device, the index of the job that a task of one GPU is of; None: free."""
    waiting: tuple[Waiting, ...]


@st.composite
def clusters(draw: st.DrawFn) -> DrawnSearch:
    priorities = st.sampled_from([40, 60])
    job = st.builds(
        DrawnRunning, st.sampled_from(QUEUES), priorities, st.integers(0, 2), st.sampled_from("ab")
    )
    running = tuple(draw(st.lists(job, min_size=1, max_size=6)))
    holder = st.one_of(st.none(), *[st.integers(0, len(running) - 1)] * 3)
    node = st.lists(holder, min_size=2, max_size=4).map(tuple)
    expected = st.builds(
        Waiting,
        st.sampled_from(QUEUES),
        st.sampled_from([40, 60, 100]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(0, 1),
        st.sampled_from(["", "", "a"]),
    )
    return DrawnSearch(
        quotas=draw(st.tuples(*[st.integers(0, 5)] * 3)),
        running=running,
        nodes=tuple(draw(st.lists(node, min_size=1, max_size=4))),
        waiting=tuple(draw(st.lists(expected, min_size=1, max_size=4))),
    )


def opened(drawn: DrawnSearch, **options: object) -> KaiSession:
    cluster = KaiCluster(options=options)
    cluster.queue("department", parent="")
    for name, quota in zip(QUEUES, drawn.quotas, strict=True):
        cluster.queue(name, quota=quota)
    places: dict[int, list[tuple[str, str]]] = {}
    for at, devices in enumerate(drawn.nodes):
        cluster.node(f"n{at}", gpus=len(devices), labels={"host": f"n{at}"})
        for device, job in enumerate(devices):
            if job is not None:
                places.setdefault(job, []).append((f"n{at}", f"kai-gpu/{device}"))
    for job, held in places.items():
        running = drawn.running[job]
        cluster.job(
            f"runs{job}",
            tasks=len(held),
            minimum=max(len(held) - running.spare, 1),
            queue=running.queue,
            priority=running.priority,
            on=[node for node, _ in held],
            holding=[((device, (WHOLE,)),) for _, device in held],
            app=running.app,
        )
    for at, waiting in enumerate(drawn.waiting):
        cluster.job(
            f"waits{at}",
            tasks=waiting.tasks,
            minimum=max(waiting.tasks - waiting.spare, 1),
            gpus=waiting.gpus,
            queue=waiting.queue,
            priority=waiting.priority,
            away_from=waiting.away_from,
        )
    return cluster.open()


def outcome(session: KaiSession) -> list[tuple[str, Status, int, object]]:
    return [(task.name, task.status, task.row, task.devices) for task in session.world.tasks()]


SLOW = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@SLOW
@given(clusters(), st.sampled_from(EVICTING))
def test_counts_change_no_outcome(drawn: DrawnSearch, action: str) -> None:
    counted, uncounted = opened(drawn), opened(drawn)
    uncounted.counts_first = False
    for session in (counted, uncounted):
        run_action(session, action)
    assert outcome(counted) == outcome(uncounted)
    assert counted.searches.simulated <= uncounted.searches.simulated
    saved = uncounted.searches.simulated - counted.searches.simulated
    event(f"{action}: simulations saved: {bool(saved)}, evicted: {bool(counted.committed)}")


@SLOW
@given(clusters(), st.sampled_from(EVICTING))
def test_jobs_skipped_by_signature_also_fail_when_searched(drawn: DrawnSearch, action: str) -> None:
    passing = opened(drawn)
    searching = opened(drawn, **{"use-scheduling-signatures": False})
    for session in (passing, searching):
        run_action(session, action)
    assert outcome(passing) == outcome(searching)
    event(f"{action}: passed over {bool(passing.searches.passed_over)}")


@SLOW
@given(clusters(), st.sampled_from(EVICTING))
def test_labels_that_nobody_reads_tell_no_tasks_apart(drawn: DrawnSearch, action: str) -> None:
    sparing, always = opened(drawn), opened(drawn)
    run_action(sparing, action)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_kinds, "reads_labels", lambda ssn, tasks: True)
        run_action(always, action)
    assert outcome(sparing) == outcome(always)
    read = any(waiting.away_from for waiting in drawn.waiting)
    event(f"{action}: terms {read}, evicted {bool(sparing.committed)}")


@SLOW
@given(clusters())
def test_nothing_is_promised_twice_and_nobody_moves_without_a_promise(drawn: DrawnSearch) -> None:
    session = opened(drawn)
    for action in EVICTING:
        before, since = image(session), len(session.committed)
        run_action(session, action)
        mine = session.committed[since:]
        evicted = {op.task for op in mine if op.kind is OpKind.EVICT}
        if not mine:
            assert image(session) == before
        if action == "consolidation":
            assert all(task.status is Status.PIPELINED for task in evicted)
        for job in session.kai_jobs.values():
            held = [pod_set.number(HELD) for pod_set in job.root.pod_sets()]
            least = [pod_set.minimum for pod_set in job.root.pod_sets()]
            assert all(n == 0 or n >= m for n, m in zip(held, least, strict=True)), job.key
    world = session.world
    for slot in range(len(world.view.slot_names)):
        assert (world.future_idle(slot) >= 0).all()
    columns = device_columns(world)
    room = np.where(columns.there, columns.future, 0)
    assert ((room >= 0) & (room <= WHOLE)).all()
    promised: dict[tuple[int, str], str] = {}
    for task in world.tasks():
        if task.status & HELD:
            for device, _ in task.devices:
                assert promised.setdefault((task.row, device), task.name) == task.name


HELD = Status.RUNNING | Status.PIPELINED
