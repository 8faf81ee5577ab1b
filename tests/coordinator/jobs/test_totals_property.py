"""Order's totals, kept by differences, are those of a world that is built from the same tasks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.state import JobState, open_job
from shard_worker.dialects.volcano.plugins.queue.capacity_devices import Claimed
from shard_worker.session_model.full_world import take_up
from shard_worker.session_model.job import open_session_job
from shard_worker.session_model.queue_totals import INQUEUE, link, whole
from shard_worker.session_model.status import STATUS_OF
from shard_worker.session_model.workload import Amounts, QueueInfo
from shard_worker.session_model.world import World
from shard_worker.view.view import View
from shared.messages.messages import Group, TaskState
from shared.model.constraints import Constraints
from shared.model.devices import DeviceAsk, DeviceRequest, ResourceClaim, ResourceClaimTemplate
from shared.model.model import Job, Queue, Role, TaskClass
from tests.examples import examples

CLASSES = {
    0: TaskClass(requests=((0, 1000), (2, 1))),
    1: TaskClass(requests=((0, 500), (1, 7), (2, 1))),
    2: TaskClass(requests=((2, 1),)),
    3: TaskClass(
        requests=((0, 1), (2, 1)),
        constraints=Constraints(claims=("shared",), claim_templates=("own",)),
    ),
}
ASK = (DeviceRequest("r", (DeviceAsk("gpu.com", count=2),)),)
OBJECTS = (
    ResourceClaim("default", "shared", ASK),
    ResourceClaimTemplate("default", "own", ASK),
)
NAMES = ["cpu", "memory", "pods", "deviceclass/gpu.com"]
GATE = (("scheduling.volcano.sh/queue-allocation-gate", "true"),)
QUEUES = [Queue(0, "root"), Queue(1, "top", parent=0), Queue(2, "low", parent=1)]
STATES = [
    TaskState.PENDING,
    TaskState.BINDING,
    TaskState.RUNNING,
    TaskState.RELEASING,
    TaskState.SUCCEEDED,
    TaskState.FAILED,
]


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    items = []
    for jid in range(draw(st.integers(1, 4))):
        roles: list[Role] = []
        first = 0
        for _ in range(draw(st.integers(1, 2))):
            count = draw(st.integers(1, 3))
            gated = draw(st.booleans()) and draw(st.booleans())
            annotations = GATE if draw(st.booleans()) else ()
            cid = draw(st.sampled_from(sorted(CLASSES)))
            name = f"r{len(roles)}"
            roles.append(Role(name, cid, first, count, gated=gated, annotations=annotations))
            first += count
        least = st.none() | st.just(((0, draw(st.integers(1, 4000))), (1, 3)))
        items.append(
            Job(
                jid=jid,
                namespace="default",
                name=f"j{jid}",
                kind="PodGroup",
                uid=f"j{jid}",
                queue=draw(st.sampled_from(["top", "low"])),
                created=float(jid),
                groups=(Group(parent=-1, minimum=draw(st.integers(0, first))),),
                roles=tuple(roles),
                min_resources=draw(least),
                phase=draw(st.sampled_from(["", "Pending", INQUEUE, "Running"])),
            )
        )
    return items


def nonzero_totals(queues: dict[int, QueueInfo]) -> dict[str, dict[str, Amounts]]:
    """Every total that is not 0, by queue and name."""
    results: dict[str, dict[str, Amounts]] = {}
    for info in queues.values():
        own = {
            name: getattr(info, name)
            for name in ("allocated", "requested", "releasing", "inqueue", "kept", "reserved")
        }
        if info.below is not None:
            for name in ("allocated", "inqueue", "kept", "reserved"):
                own[f"below.{name}"] = getattr(info.below, name)
        own["jobs"] = {0: info.jobs}
        results[info.queue.name] = {
            name: {slot: amount for slot, amount in of.items() if amount}
            for name, of in own.items()
        }
    return results


def world_of(states: list[JobState]) -> World:
    world = World(view=View(shard=0))
    world.view.slot_names = list(NAMES)
    for value in OBJECTS:
        if isinstance(value, ResourceClaim):
            world.objects.claims["default/shared"] = value
        else:
            world.objects.claim_templates["default/own"] = value
    world.queues = {queue.qid: QueueInfo(queue=queue) for queue in QUEUES}
    by_name = {queue.name: world.queues[queue.qid] for queue in QUEUES}
    for state in states:
        queue = by_name[state.job.queue]
        at = [STATUS_OF[TaskState(one)] for one in state.states]
        job = open_session_job(
            state.job, queue=queue, classes=CLASSES, states=at, rows=[0] * len(at)
        )
        job.phase = state.info.phase
        world.add_job(job)
        take_up(world, queue, job)
    link(world.queues)
    return world


steps = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from(STATES)))


@settings(max_examples=examples(150))
@given(jobs(), steps)
def test_both_halves_have_the_same_totals(
    history: list[Job], moves: list[tuple[int, int, TaskState]]
) -> None:
    accounts = Accounts()
    accounts.classes.update(CLASSES)
    for queue in QUEUES:
        accounts.cluster.queues[queue.qid] = QueueInfo(queue=queue)
    link(accounts.cluster.queues)
    accounts.cluster.names = NAMES
    for value in OBJECTS:
        accounts.put_object(value)
    qids = {queue.name: queue.qid for queue in QUEUES}
    states = [open_job(job, qid=qids[job.queue], classes=CLASSES) for job in history]
    for state in states:
        accounts.admit(state)
    for which, task, new in moves:
        state = states[which % len(states)]
        accounts.move(state, [task % len(state.states)], new)
    world = world_of(states)
    assert nonzero_totals(accounts.cluster.queues) == nonzero_totals(world.queues)
    for name in ("inqueue", "kept", "promised"):
        left, right = getattr(accounts.cluster, name), getattr(world, name)
        assert {s: a for s, a in left.items() if a} == {s: a for s, a in right.items() if a}, name
    claimed = Claimed(world, consumable=True)
    for qid, queue_info in accounts.cluster.queues.items():
        left, right = whole(queue_info, "claimed"), claimed.held(qid)
        assert {s: a for s, a in left.items() if a} == {s: a for s, a in right.items() if a}
    for state in states:
        info, job = state.info, world.session_job(state.job.jid)
        assert info.using == job.using
        for name in ("allocated", "gated"):
            left, right = getattr(info, name), getattr(job, name)
            assert {s: a for s, a in left.items() if a} == {s: a for s, a in right.items() if a}
    accounts.validate(states)
