"""Questions about jobs that sessions place: answered as a real turn would be, and nothing stays."""

from __future__ import annotations

import numpy as np

from coordinator.cli.scheduling.explain_text import _victims
from shard_worker.dialects.open_session import open_session
from shard_worker.inquiry.findings import FINDINGS, InquiryFinding, InquiryFindings
from shard_worker.inquiry.inquiry import HERE, INQUIRY, Inquiry
from shard_worker.view.mode import Mode
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode, TaskState, Turn
from shared.model.constraints import Constraints, PodTerm, Requirement
from shared.model.model import TaskClass
from shared.policy.dialect import parse_policy
from shared.records.specs import encode_class
from shared.units.slots import CPU, PODS
from tests.shard_worker.placement.support import cls, cpus, node, record, view_of
from tests.shard_worker.turns.sessions import EVERYTHING, Books

APART = Constraints(
    pod_terms=(
        PodTerm(
            topology_key="kubernetes.io/hostname",
            selector=(Requirement("app", "In", ("web",)),),
            anti=True,
        ),
    )
)
CLASSES = {0: cls(1), 1: cls(3), 2: replace(cls(1), constraints=APART), 3: cls(5)}
WEB = (("app", "web"),)


def worker(books: Books, *used: int) -> Worker:
    """Nodes of 4 cores, so many of which are in use."""
    books.total = {CPU: 4000 * len(used)}
    records = [record(allocatable=cpus(4), used={CPU: 1000 * cores}) for cores in used]
    named = [node(row) for row in range(len(used))]
    nodes = [replace(n, labels={"kubernetes.io/hostname": n.name}) for n in named]
    view = view_of(records, classes=CLASSES, nodes=nodes)
    return Worker(session=open_session(EVERYTHING), view=view, mode=Mode.NONE, shard=0)


def ask(
    there: Worker, *turns: Turn, wanted: dict[int, int], **fields: object
) -> list[InquiryFinding]:
    """Through the wire's forms; the view is as before."""
    before = there.view.columns.image()
    inquiry = Inquiry(list(turns), [wanted] * len(turns), **fields)  # type: ignore[arg-type]
    result = there.inquire(INQUIRY.decode(INQUIRY.encode(inquiry)), now=1.0)
    assert there.view.columns.image() == before
    inquiry_findings = InquiryFindings("1-0", result)
    assert FINDINGS.decode(FINDINGS.encode(inquiry_findings)) == inquiry_findings
    return result


def test_checks_that_depend_on_running_pods_count_in_the_funnel() -> None:
    books = Books(CLASSES)
    runs = books.job(0, [0])
    books.jobs[0] = runs = replace(runs, roles=(replace(runs.roles[0], labels=WEB),))
    waits = books.job(2, [-1, -1])
    there = worker(books, 1, 0)
    (result,) = ask(there, books.turn(waits, "allocate", [runs]), wanted={2: 2}, funnels=True)
    assert result.code is OutcomeCode.PLACED  # it keeps away from web, not from itself
    (role,) = result.funnels
    assert [(c.kind, c.name, c.count) for c in role.funnel.checks] == [
        ("live", "didn't match pod anti-affinity rules", 1)
    ]
    assert role.funnel.total == 2 and role.funnel.fits == 1


def test_a_selector_that_no_node_matches_is_the_reason_even_when_all_are_full() -> None:
    books = Books(CLASSES | {4: replace(cls(1), selector=(("zone", "x"),))})
    job = books.job(4, [-1])
    there = worker(books, 4, 4)
    there.view.classes[4] = books.classes[4]
    (result,) = ask(there, books.turn(job, "allocate"), wanted={4: 1})
    assert list(result.reasons) == ["node(s) didn't match Pod's node selector"]


def test_turns_that_stand_apart_do_not_see_each_other() -> None:
    books = Books(CLASSES)
    one, other = books.job(1, [-1]), books.job(1, [-1])
    there = worker(books, 0)
    turns = [books.turn(one, "allocate"), books.turn(other, "allocate")]
    answer = ask(there, *turns, wanted={1: 1})
    assert [f.code for f in answer] == [OutcomeCode.PLACED, OutcomeCode.INFEASIBLE]
    answer = ask(there, *turns, wanted={1: 1}, apart=True)
    assert [f.code for f in answer] == [OutcomeCode.PLACED, OutcomeCode.PLACED]


def test_a_class_that_nobody_knows_travels_along_with_its_job() -> None:
    books = Books(CLASSES | {77: cls(2)})
    job = books.job(77, [-1, -1])
    there = worker(books, 0)
    fresh = {77: encode_class(books.classes[77])}
    turn = books.turn(job, "allocate")
    (result,) = ask(there, turn, wanted={77: 2}, classes=fresh)
    assert (result.code, result.placements[0].cid) == (OutcomeCode.PLACED, 77)
    assert result.funnels[0].cid == 77
    (unknown,) = ask(there, turn, wanted={77: 2})
    assert unknown.code is OutcomeCode.STALE


def test_a_task_that_asks_for_nothing_is_asked_about_by_backfill() -> None:
    books = Books(CLASSES | {5: TaskClass(requests=((PODS, 1),))})
    job = books.job(5, [-1])
    there = worker(books, 0)
    there.view.classes[5] = books.classes[5]
    (result,) = ask(there, books.turn(job, "backfill"), wanted={5: 1})
    assert result.code is OutcomeCode.PLACED


def test_why_here_shows_each_plugins_score_and_the_other_candidates() -> None:
    books = Books(CLASSES)
    job = books.job(1, [0])
    there = worker(books, 3, 2, 1)  # row 1 has no room, row 2 has
    books.states[0] = [TaskState.PENDING]
    turn = replace(books.turn(job, HERE), nominated={0: 0})
    ((here,),) = [result.placement_scores for result in ask(there, turn, wanted={})]
    assert (here.row, here.nodes) == (0, [2, 0, 0, 0])
    assert [(one.row, one.level) for one in here.candidates] == [(0, 1), (2, 1)]
    assert here.plugins == ["nodeorder"]
    free, busy = (sum(one.scores) for one in here.candidates)
    assert free > busy  # nodeorder prefers the emptier node
    gone = replace(books.turn(job, HERE), nominated={0: 1})
    ((here,),) = [result.placement_scores for result in ask(there, gone, wanted={})]
    assert [(one.row, one.level) for one in here.candidates] == [(1, 1), (2, 1)]


def test_the_parts_of_a_score_add_up_to_it() -> None:
    books = Books(CLASSES)
    job = books.job(1, [-1])
    there = worker(books, 3, 2, 1)
    opened = there._turns.opened(books.turn(job, "allocate"), now=1.0)
    assert opened is not None
    session, of = opened
    rows = np.array([0, 1, 2])
    parts = session.score_parts(of.tasks[0], rows)
    assert np.array_equal(sum(parts.values()), session.node_scores(of.tasks[0], rows))


def test_why_nobody_was_asked_to_make_way_is_told() -> None:
    polite = replace(cls(3), constraints=Constraints(preempts=False))
    books = Books(CLASSES | {4: polite})
    runs = books.job(1, [0])
    waits = books.job(4, [-1], priority=5)
    there = worker(books, 3)
    there.view.classes[4] = polite
    placed = there._turns.place(books.turn(waits, "preempt", [runs]), now=1.0)
    assert placed.reasons == {"its preemptionPolicy is Never": 0}
    answer = {"victims": {"action": "preempt", "considered": 0, "kept": []}}
    assert _victims(answer) == ["preempt: there are no tasks to evict"]
    answer["victims"]["kept"] = [{"why": why, "tasks": n} for why, n in placed.reasons.items()]
    assert _victims(answer) == ["preempt: its preemptionPolicy is Never"]


def test_a_question_does_not_wait_for_an_extender() -> None:
    arguments = {"extender.urlPrefix": "http://127.0.0.1:1", "extender.predicateVerb": "filter"}
    plugins = [{"name": "gang"}, {"name": "extender", "arguments": arguments}]
    policy = parse_policy({"actions": "allocate", "tiers": [{"plugins": plugins}]})
    books = Books(CLASSES)
    job = books.job(1, [-1])
    plain = worker(books, 0)
    asks = Worker(session=open_session(policy), view=plain.view, mode=Mode.NONE, shard=0)
    turn = books.turn(job, "allocate")
    (result,) = ask(plain, turn, wanted={1: 1})
    assert result.code is OutcomeCode.PLACED
    (result,) = ask(asks, turn, wanted={1: 1})
    assert result.code is OutcomeCode.STALE
