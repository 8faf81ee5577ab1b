"""A flat job gets the same nodes over columns, as a service places it, and from a session over a
world, as a replay decides it under a KAI policy."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.allocate import turn
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.service.rules import open_service_session
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import Status
from shard_worker.turns.flat_turn import PlacedTurn, place
from shard_worker.view.columns import NOMINATED
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.messages.messages import ALLOCATE, TaskRun, Turn
from shared.model.gpu_request import GpuRequest
from tests.examples import examples
from tests.shard_worker.dialects.kai.clusters import GPU, KaiCluster

PLACED = Status.BINDING | Status.ALLOCATED | Status.PIPELINED


@dataclass(frozen=True)
class KaiDrawnNode:
    gpus: int
    used: int
    leaving: int
    busy: int
    """Tasks that use a core and no GPU."""


@dataclass(frozen=True)
class KaiDrawnJob:
    tasks: int
    gpus: int
    cores: int
    spare: int
    """How many tasks more than the minimum there are."""


nodes = st.builds(
    KaiDrawnNode,
    st.sampled_from([0, 2, 4, 8]),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(0, 6),
)
jobs = st.builds(
    KaiDrawnJob,
    st.integers(1, 4),
    st.sampled_from([0, 1, 1, 2]),
    st.integers(0, 3),
    st.integers(0, 2),
)
strategies = st.sampled_from(["binpack", "spread"])


def policy_of(gpu: str, cpu: str, *, by_kind: bool) -> dict[str, object]:
    names = ["predicates", "proportion", "priority", "elastic", "nodeavailability"]
    names += ["resourcetype"] if by_kind else []
    placement = {"name": "nodeplacement", "arguments": {"gpu": gpu, "cpu": cpu}}
    return {"tiers": [{"plugins": [*({"name": name} for name in names), placement]}]}


def cluster_of(
    listed: list[KaiDrawnNode], wanted: list[KaiDrawnJob], policy: dict[str, object]
) -> KaiCluster:
    cluster = KaiCluster(**policy)
    for i, node in enumerate(listed):
        cluster.node(f"n{i}", resources={GPU: node.gpus} if node.gpus else {})
        used = min(node.used, node.gpus)
        leaving = min(node.leaving, node.gpus - used)
        on = f"n{i}"
        cluster.job(f"runs{i}", tasks=used, on=[on] * used)
        cluster.job(f"leaves{i}", tasks=leaving, on=[on] * leaving, status=Status.RELEASING)
        cluster.job(f"busy{i}", tasks=node.busy, on=[on] * node.busy, resources={"cpu": 1})
    for i, job in enumerate(wanted):
        amounts: dict[str, float] = {"cpu": job.cores, GPU: job.gpus}
        amounts = {name: amount for name, amount in amounts.items() if amount} or {"cpu": 1}
        minimum = max(job.tasks - job.spare, 1)
        cluster.job(f"job{i}", tasks=job.tasks, minimum=minimum, resources=amounts)
    return cluster


def turn_of(job: SessionJob, minimum: int) -> Turn:
    """The gang, or one task more of a job that has it."""
    left = [task for task in job.tasks if task.status is Status.PENDING]
    group = replace(job.job.groups[0], minimum=minimum, held=job.job.tasks - len(left))
    return Turn(
        jid=job.job.jid,
        job_version=1,
        qid=job.qid,
        priority=job.job.priority,
        groups=[group],
        runs=[TaskRun(left[0].role.cid, 0, "", [task.tix for task in left])],
        total=job.job.tasks,
        tail=0,
    )


def flat(placed: PlacedTurn) -> dict[int, tuple[int, bool]]:
    """Task -> its row, and whether it is bound there (else promised)."""
    return {p.task: (p.row, p.kind == ALLOCATE) for p in placed.core}


def in_session(job: KaiJob) -> dict[int, tuple[int, bool]]:
    return {
        task.tix: (task.row, task.status is not Status.PIPELINED)
        for task in job.job.tasks
        if task.status & PLACED
    }


PROMISING = [KaiDrawnNode(4, 0, 1, 0), KaiDrawnNode(4, 1, 2, 0)]
"""The second of two gangs is promised what leaves, of which its own first promise is a part."""


@settings(max_examples=examples(80))
@example(PROMISING, [KaiDrawnJob(3, 1, 0, 0)] * 2, "spread", "binpack", True)
@given(
    st.lists(nodes, min_size=1, max_size=6),
    st.lists(jobs, min_size=1, max_size=4),
    strategies,
    strategies,
    st.booleans(),
)
def test_same_turns_same_places(
    listed: list[KaiDrawnNode], wanted: list[KaiDrawnJob], gpu: str, cpu: str, by_kind: bool
) -> None:
    policy = policy_of(gpu, cpu, by_kind=by_kind)
    ssn = cluster_of(listed, wanted, policy).open()
    columns = cluster_of(listed, wanted, policy)
    world = columns.open().world
    service = open_service_session(columns.policy)
    classes = CompiledClasses(view=world.view, session=service, mode=Mode.NONE, seed=None)
    for kai_job in pending(ssn):
        twin = world.session_job(kai_job.job.job.jid)
        for _ in twin.tasks:
            before = in_session(kai_job)
            placed = place(
                turn_of(twin, kai_job.group.min_member),
                session=service,
                view=world.view,
                classes=classes,
            )
            went = turn(ssn, kai_job)
            after = in_session(kai_job)
            mine = {tix: after[tix] for tix in after if tix not in before}
            event("placed" if went else "nothing")
            theirs = flat(placed)
            if any(not bound for _, bound in mine.values()):
                # A turn over columns that promises goes through all tasks of the job; a session
                # promises the surplus by turns of its own, after those of others.
                event("promised")
                assert {tix: theirs[tix] for tix in mine} == mine
                assert not any(theirs[tix][1] for tix in theirs.keys() - mine)
                return  # from here on one promises what the other holds
            assert theirs == mine
            if not went or not kai_job.waits:
                break
            for p in placed.core:
                task = twin.tasks[p.task]
                task.row = p.row
                twin.move(task, Status.BINDING)


@pytest.mark.parametrize("promised", [False, True])
def test_a_task_begins_on_the_device_that_it_was_promised_beside_another(promised: bool) -> None:
    """Nobody is on the device, and each of two has the promise of a part: who has none waits."""

    def opened() -> KaiSession:
        cluster = KaiCluster()
        cluster.node("a", gpus=1)
        cluster.job("job", marks={"gpu-fraction": "0.3"})
        view = (ssn := cluster.open()).world.view
        view.things.shift(NOMINATED, (("kai-gpu/0", (400,)),), 0, 1)
        view.changes.mark(0)
        return ssn

    ssn = opened()
    (job,) = pending(ssn)
    job.job.tasks[0].nominated = 0 if promised else -1
    assert turn(ssn, job)
    assert in_session(job) == {0: (0, promised)}
    view = (world := opened().world).view
    request_turn = turn_of(world.session_job(job.job.job.jid), 1)
    cid = request_turn.runs[0].cid
    view.classes[cid] = replace(view.classes[cid], gpu_share=GpuRequest(1, part=300))
    service = open_service_session(KaiCluster().policy)
    placed = place(
        replace(request_turn, nominated={0: 0} if promised else {}),
        session=service,
        view=view,
        classes=CompiledClasses(view=view, session=service, mode=Mode.NONE, seed=None),
    )
    assert flat(placed) == {0: (0, promised)}


def pending(ssn: KaiSession) -> list[KaiJob]:
    return [job for job in ssn.kai_jobs.values() if job.job.job.name.startswith("job")]


def test_the_strategies_differ() -> None:
    """The comparison is of something: by another strategy the same job goes elsewhere."""
    listed, expected = (
        [KaiDrawnNode(4, 2, 0, 0), KaiDrawnNode(4, 0, 0, 0)],
        [KaiDrawnJob(1, 1, 1, 0)],
    )
    rows = []
    for gpu in ("binpack", "spread"):
        ssn = cluster_of(listed, expected, policy_of(gpu, "binpack", by_kind=True)).open()
        (job,) = pending(ssn)
        assert turn(ssn, job)
        rows.append(in_session(job)[0][0])
    assert rows == [0, 1]
