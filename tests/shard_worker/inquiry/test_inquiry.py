"""Inquiries of one worker: what is told equals what a real turn does, and nothing of it stays."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.inquiry.findings import FINDINGS, InquiryFindings
from shard_worker.inquiry.inquiry import INQUIRY, Inquiry, examine
from shard_worker.turns.flat_turn import place
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.messages.messages import ALLOCATE, OutcomeCode
from shared.model.model import TaskClass
from shared.records.specs import encode_class
from shared.units.slots import CPU, PODS
from tests.examples import examples
from tests.shard_worker.placement.support import (
    classes_of,
    cls,
    cpus,
    record,
    session_of,
    turn,
    view_of,
)


def view(*used: int) -> View:
    """Nodes of 8 cores with so many in use."""
    return view_of([record(allocatable=cpus(8), used={CPU: cores * 1000}) for cores in used])


@settings(max_examples=examples(50), deadline=None)
@given(
    used=st.lists(st.integers(0, 8), min_size=1, max_size=8),
    gangs=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    mode=st.sampled_from([Mode.SOFT, Mode.NONE, Mode.HARD]),
)
def test_a_plan_finds_the_result_of_the_same_turns(
    used: list[int], gangs: list[int], mode: Mode
) -> None:
    turns = [turn(tasks, jid=jid) for jid, tasks in enumerate(gangs)]
    report = view(*used)
    before = report.columns.image()
    session = session_of()
    findings = examine(
        Inquiry(turns, [{0: len(t.runs[0].tasks)} for t in turns]),
        classes_of(report, session, mode=mode),
    )
    assert report.columns.image() == before
    assert report.columns.settled

    real = view(*used)
    classes = classes_of(real, session, mode=mode)
    for one, finding in zip(turns, findings, strict=True):
        placed = place(one, session=session, view=real, classes=classes)
        rows = [row for p in finding.placements if p.kind == ALLOCATE for row in p.rows]
        assert rows == [p.row for p in placed.core]
        assert (finding.code is OutcomeCode.PLACED) is bool(placed.core)
        if not placed.core:
            (role,) = finding.funnels
            free = sum(amount // 1000 for amount in _free(real))
            assert role.funnel.starts == free < role.needed


def _free(view: View) -> list[int]:
    free = view.column("allocatable", CPU) - view.column("used", CPU)
    return [int(amount) for amount in free]


def test_a_class_that_nobody_knows_travels_along_and_is_forgotten() -> None:
    there = view(0, 7)
    before = (there.columns.image(), dict(there.classes))
    large = TaskClass(requests=((CPU, 6000), (PODS, 1)))
    question = turn(1, cid=77)
    inquiry = Inquiry([question], [{77: 1}], classes={77: encode_class(large)}, funnels=True)
    (result,) = examine(INQUIRY.decode(INQUIRY.encode(inquiry)), classes_of(there, session_of()))
    assert result.code is OutcomeCode.PLACED
    assert (result.placements[0].cid, result.placements[0].rows) == (77, [0])
    assert (result.funnels[0].cid, result.funnels[0].funnel.fits) == (77, 1)
    assert (there.columns.image(), there.classes) == before
    unknown = examine(Inquiry([question], [{77: 1}]), classes_of(there, session_of()))
    assert unknown[0].code is OutcomeCode.STALE


def test_a_number_that_another_class_was_given_meanwhile_does_no_harm() -> None:
    there = view(0)
    there.classes[0] = cls(cores=1)
    large = TaskClass(requests=((CPU, 9000), (PODS, 1)))
    inquiry = Inquiry([turn(1)], [{0: 1}], classes={0: encode_class(large)})
    (result,) = examine(inquiry, classes_of(there, session_of()))
    assert result.code is OutcomeCode.INFEASIBLE
    assert there.classes[0] == cls(cores=1)


def test_it_stops_between_turns_when_there_is_no_time_left() -> None:
    there = view(0, 0)
    before = there.columns.image()
    turns = [turn(1, jid=jid) for jid in range(5)]
    left = iter([True, False])
    findings = examine(
        Inquiry(turns, [{0: 1}] * 5),
        classes_of(there, session_of()),
        may_go_on=lambda: next(left),
    )
    assert [finding.jid for finding in findings] == [0, 1]
    assert there.columns.image() == before


def test_findings_survive_encoding_and_decoding() -> None:
    there = view(7, 6)
    turns = [turn(2, jid=1), turn(9, jid=2)]
    findings = examine(
        Inquiry(turns, [{0: 2}, {0: 9}], funnels=True), classes_of(there, session_of())
    )
    assert [finding.code for finding in findings] == [OutcomeCode.PLACED, OutcomeCode.INFEASIBLE]
    inquiry_findings = InquiryFindings("5-0", findings)
    assert FINDINGS.decode(FINDINGS.encode(inquiry_findings)) == inquiry_findings
