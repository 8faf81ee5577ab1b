"""One of each message and stored thing, with as many of its fields in use as may be."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.cluster.protocol import BindRequests, Reports
from coordinator.cluster.simulated.calls import (
    bind_columns,
    read_bind,
    read_bind_answers,
    read_reports,
    report_columns,
)
from coordinator.cluster.simulated.wire import frame, unframe
from coordinator.intake.documents.document import Document, Key, decode_document, encode_document
from shard_worker.inquiry.findings import FINDINGS, InquiryFinding, InquiryFindings, RoleFunnel
from shard_worker.inquiry.funnel import Funnel, FunnelCheck, NearMiss
from shard_worker.inquiry.inquiry import INQUIRY, Inquiry
from shard_worker.worker.figures import WorkerFigures
from shard_worker.worker.transport import CONFIG, REPLY, PlaceReply, WorkerConfig
from shared.codec.packed import replace
from shared.ledger.redis.access import Access
from shared.messages.messages import (
    ALLOCATE,
    Epoch,
    EvictRun,
    Group,
    Outcome,
    OutcomeCode,
    Placement,
    TaskRun,
    Turn,
    Verdict,
)
from shared.messages.turn_context import TURN_CONTEXT, JobContext, QueueContext, TurnContext
from shared.messages.wire import TURNS
from shared.model.constraints import Constraints, PodTerm, Requirement, Spread, Taint, Toleration
from shared.model.devices import DeviceAsk, DeviceRequest, ResourceClaim
from shared.model.model import Job, Node, NodeGroupAffinity, PriorityClass, Queue, Role, TaskClass
from shared.model.topology import HyperNode, SubGroupPolicy, Topology
from shared.records import specs, specs_jobs
from shared.units.slots import Slots
from shared.units.things import Things


class Sample(NamedTuple):
    """Something sealed, and what reads it."""

    kind: bytes
    """Its kind by its seal; b"" where the seal is made otherwise."""
    data: bytes
    read: Callable[[bytes], Any]


TURN = Turn(
    jid=7,
    job_version=3,
    qid=2,
    priority=-5,
    groups=[Group(-1, 2, 1), Group(0, 1)],
    runs=[TaskRun(4, 1, "worker", [0, 1, 900])],
    total=3,
    tail=2,
    attempt=1,
    nominated={0: 17},
)
PLACED = Placement(4, ALLOCATE, [0, 1], [70_000, 17], [1, 2])
OUTCOME = Outcome(
    jid=7,
    code=OutcomeCode.CONFLICT,
    placements=[PLACED],
    reasons={"no room: cpu": 12},
    failed_role="worker",
    displaced=[9],
    committed=1,
    rechecked=2,
    conflicts_true=3,
    conflicts_read=4,
    session=5,
)
PASSWORD = "pass-word-1"
CONFIGURED = WorkerConfig(
    shard=3,
    epoch=Epoch(12, "0123abcd"),
    run_id="a" * 40,
    mode="soft",
    seed=1,
    policy={"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]},
    access=Access("rediss://h:1", "quadrant", PASSWORD, "/ca", "/cert", "/key"),
    nomination_seconds=10.0,
    lease_seconds=3.0,
)
FUNNEL = Funnel(
    total=9,
    fits=1,
    starts=2,
    later=3,
    matching=4,
    empty=5,
    idle=[(0, 100)],
    scarce=[1],
    checks=[FunnelCheck("amount", "cpu", 0, 3, 1, 2, [5, 6])],
    near=[NearMiss(5, [(0, 10, 5, 5)])],
    smaller=[(0, 50)],
)
FINDING = InquiryFinding(
    7,
    OutcomeCode.INFEASIBLE,
    [PLACED],
    [9],
    {"no room": 3},
    [RoleFunnel(4, "worker", 2, FUNNEL)],
    evictions=[EvictRun(9, 2, 4, 0, [1, 3], [17, 70_000], guards=3)],
    evicted_by="preempt (priority, gang): for ns/high-0",
)
NODE = Node(
    3, "n3", ((0, 8000), (2, 110)), {"zone": "a"}, (Taint("k", "v", "NoSchedule"),), True, 2
)
SELECTOR = (Requirement("zone", "In", ("a", "b")),)
CLASS = TaskClass(
    ((0, 100), (2, 1)),
    (("zone", "a"),),
    (SELECTOR,),
    (Toleration("k", "Equal", "v", ""),),
    Constraints(
        (PodTerm("zone", SELECTOR),), (Spread("zone", selector=()),), ((5, SELECTOR),), ("v",)
    ),
)
QUEUE = Queue(
    2, "research", capability=((0, 5),), deserved=((0, 3),), affinity=NodeGroupAffinity(("a",))
)
CLAIM = ResourceClaim("ns", "c", (DeviceRequest("r", (DeviceAsk("gpu", selectors=("x",)),)),))
JOB = Job(
    jid=7,
    namespace="default",
    name="train",
    kind="Job",
    uid="u-1",
    queue="research",
    created=1.5,
    groups=(Group(-1, 2),),
    roles=(
        Role("worker", 4, 0, 3, names=("a", "b", "c"), duration=2.5, exit_code=3),
        Role("master", 4, 3, 1, labels=(("x", "1"),), created=(0.5,), uids=("u",)),
    ),
    role_minima=(("worker", 1),),
    min_resources=((0, 5),),
    topology=Topology(True, 1),
    sub_groups=(SubGroupPolicy("s", selector=SELECTOR),),
)
ROWS = array("i", [-1, 4]).tobytes()
DEVICES: dict[int, Things] = {1: (("gpu/0", (1, 2**40)),)}
CONTEXT = TurnContext(
    total={0: 9},
    free={0: 4},
    promised={0: 1},
    queues=[QueueContext(b"spec", 2, [{0: 5}, {0: 7}, {}, {}, {}, {1: 2}, {}])],
    jobs=[JobContext(b"j", b"\x00\x03", ROWS, ["k"], "Inqueue", {0: 2}, {1: 2.5}, DEVICES)],
    versions={"k": 3},
    spared=[7],
)
SESSION_TURN = replace(TURN, action="preempt", world=TURN_CONTEXT.encode(CONTEXT))
MOVING = replace(OUTCOME, moved={"budget/a/b": 2})
DOCUMENT = Document(
    Key("Job", "default", "train"), b'{"spec":{}}', 1.5, 2, 7, 3.5, {"phase": "Running"}
)
BIND = BindRequests(["7.0", "7.1"], ["u", "v"], ["a", "b"], ["n", "m"], [None, 2.5], [0, 3])
REPORTS = Reports(9, [0, 3], ["7.0", "7.1"], ["n", "m"])


def figures() -> WorkerFigures:
    worker_figures = WorkerFigures()
    worker_figures.judged(Verdict.FIT, wasted=3)
    worker_figures.commit_seconds.observe(0.01)
    return worker_figures


def samples() -> dict[str, Sample]:
    reply = PlaceReply([OUTCOME, MOVING], "5-1", 0.25, figures())
    inquiry = Inquiry([TURN], [{4: 2}], {4: specs.encode_class(CLASS)}, funnels=True)
    hyper = HyperNode.of("rack", 1, ("n3",), ("leaf",))
    urgent = PriorityClass("high", 1000)
    return {
        "turns": Sample(b"turns", TURNS.encode([TURN, SESSION_TURN]), TURNS.decode),
        "turn context": Sample(b"turn context", TURN_CONTEXT.encode(CONTEXT), TURN_CONTEXT.decode),
        "worker": Sample(b"worker", CONFIG.encode(CONFIGURED), CONFIG.decode),
        "placed": Sample(b"placed", REPLY.encode(reply), REPLY.decode),
        "inquiry": Sample(b"inquiry", INQUIRY.encode(inquiry), INQUIRY.decode),
        "findings": Sample(
            b"findings", FINDINGS.encode(InquiryFindings("5-1", [FINDING])), FINDINGS.decode
        ),
        "node": Sample(b"node", specs.encode_node(NODE), specs.decode_node),
        "class": Sample(b"class", specs.encode_class(CLASS), specs.decode_class),
        "queue": Sample(b"queue", specs.encode_queue(QUEUE), specs.decode_queue),
        "job": Sample(b"job", specs_jobs.encode_job(JOB), specs_jobs.decode_job),
        "hypernode": Sample(b"hypernode", specs.encode_hyper_node(hyper), specs.decode_hyper_node),
        "resource claim": Sample(
            b"resourceclaim",
            specs.encode_object(CLAIM),
            lambda data: specs.decode_object("resourceclaim/ns/c", data),
        ),
        "priorityclass": Sample(
            b"priorityclass", specs.encode_priority_class(urgent), specs.decode_priority_class
        ),
        "slots": Sample(b"slots", specs.encode_slots(Slots()), specs.decode_slots),
        "numbers": Sample(b"numbers", specs.encode_numbers(9, 4, 7), specs.decode_numbers),
        "document": Sample(
            f"document {DOCUMENT.key}".encode(),
            encode_document(DOCUMENT),
            lambda data: decode_document(str(DOCUMENT.key), data),
        ),
        "bind frame": Sample(
            b"", frame([1, "bind", bind_columns(BIND)]), lambda data: read_bind(unframe(data)[2])
        ),
        "answer frame": Sample(
            b"",
            frame([1, "", [[0, 2], ["", "n"], ["", "full"]]]),
            lambda data: read_bind_answers(unframe(data)[2], 2),
        ),
        "reports frame": Sample(
            b"",
            frame([1, "", report_columns(REPORTS)]),
            lambda data: read_reports(unframe(data)[2]),
        ),
    }
