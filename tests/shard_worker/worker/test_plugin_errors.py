"""A plugin that raises in a worker: its turn ends, and nothing else."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.plugins.node.binpack import Fullness
from shard_worker.framework.extension_points import DEVICE_CHOICE, JOB_VALID
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.raised_rule import plugin_error
from shard_worker.framework.rules import NodeColumns
from shard_worker.framework.session import Session
from shard_worker.inquiry.inquiry import Inquiry
from shard_worker.view.view import View
from shard_worker.worker.transport import REPLY, PlaceReply
from shard_worker.worker.worker import Worker
from shared.messages.messages import OutcomeCode, Turn
from shared.messages.reason import Reason
from shared.messages.skips import read
from shared.model.model import TaskClass
from shared.policy.dialect import parse_policy
from shared.policy.model import PluginOption
from shared.units.slots import CPU, PODS
from tests.shard_worker.framework.installed import frail_policy, install_frail
from tests.shard_worker.placement.support import cls, cpus, record, turn, view_of
from tests.shard_worker.turns.sessions import Books
from tests.shard_worker.worker.test_worker import NOW, commit_batch, outcomes_of, worker_of

ONE, TWO = 0, 1
CLASSES = {ONE: cls(1), TWO: TaskClass(requests=((CPU, 2000), (PODS, 1)))}


@pytest.fixture(autouse=True)
def _frail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_frail(tmp_path, monkeypatch)


def worker_with(at: str) -> Worker:
    view: View = view_of([record(allocatable=cpus(8))] * 2, classes=CLASSES)
    return worker_of(view, session=open_session(parse_policy(frail_policy(at))))


def of_session(cid: int) -> Turn:
    books = Books(CLASSES)
    return books.turn(books.job(cid, [-1, -1]), "allocate")


@pytest.mark.parametrize(
    ("at", "point", "bad", "good"),
    [
        ("Predicate", "Predicate", turn(2, cid=TWO), turn(2, cid=ONE)),
        ("NodeOrder", "NodeOrder", turn(2, cid=TWO), turn(2, cid=ONE)),
        ("LivePredicate", "LivePredicate", of_session(TWO), of_session(ONE)),
        ("AllocateFunc", "EventHandler", of_session(TWO), of_session(ONE)),
    ],
)
def test_the_turn_ends_with_the_name_and_the_view_is_as_before(
    at: str, point: str, bad: Turn, good: Turn
) -> None:
    worker = worker_with(at)
    before = worker.view.columns.image()
    (outcome,) = outcomes_of(worker.on_turns([bad], now=NOW))
    assert outcome.code is OutcomeCode.INFEASIBLE
    skip = read(outcome.reasons)
    assert skip is not None
    assert skip[0] is Reason.PLUGIN_ERROR
    assert skip[1] == f"plugin frail raised at {point}: KeyError: 'rack'"
    assert worker.view.columns.image() == before
    worker.validate()
    assert len(commit_batch(worker.on_turns([good], now=NOW)).statements) == 1


def test_it_is_counted_and_its_traceback_is_sent_once_of_each_kind() -> None:
    worker = worker_with("Predicate")
    worker.on_turns([turn(1, cid=TWO), turn(1, cid=TWO, jid=2)], now=NOW)
    reply = REPLY.decode(REPLY.encode(PlaceReply([], "0", figures=worker.take_figures())))
    figures = reply.figures
    assert figures is not None
    assert figures.plugin_errors == {"frail": 2}
    ((kind, text),) = figures.tracebacks.items()
    assert kind == "frail Predicate KeyError"
    assert "in fail" in text
    worker.on_turns([turn(1, cid=TWO)], now=NOW)
    later = worker.take_figures()
    assert (later.plugin_errors, later.tracebacks) == ({"frail": 1}, {})


def test_an_inquiry_finds_it_too_and_is_not_counted() -> None:
    worker = worker_with("Predicate")
    before = worker.view.columns.image()
    question = Inquiry(turns=[turn(1, cid=TWO)], needed=[{TWO: 1}])
    (finding,) = worker.inquire(question, now=NOW)
    assert finding.code is OutcomeCode.INFEASIBLE
    assert read(finding.reasons) is not None
    assert worker.view.columns.image() == before
    assert not worker.take_figures().plugin_errors


def test_one_that_does_not_open_is_an_error_of_the_policy() -> None:
    policy = parse_policy(frail_policy("on_session_open"))
    with pytest.raises(PluginError, match=r"^plugin frail raised at on_session_open: OSError: no"):
        open_session(policy)


@pytest.mark.parametrize(
    ("bad", "good"), [(turn(2, cid=TWO), turn(2, cid=ONE)), (of_session(TWO), of_session(ONE))]
)
def test_a_plugin_of_ours_that_raises_does_not_take_the_worker_with_it(
    monkeypatch: pytest.MonkeyPatch, bad: Turn, good: Turn
) -> None:
    weighed = Fullness._weighed

    def raising(self: Fullness, cls: TaskClass, view: NodeColumns) -> list[tuple[int, int, float]]:
        if (CPU, 2000) in cls.requests:
            raise IndexError("no such slot")
        return weighed(self, cls, view)

    monkeypatch.setattr(Fullness, "_weighed", raising)
    policy = parse_policy("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: binpack}]}]")
    view: View = view_of([record(allocatable=cpus(8))] * 2, classes=CLASSES)
    worker = worker_of(view, session=open_session(policy))
    before = worker.view.columns.image()
    (outcome,) = outcomes_of(worker.on_turns([bad], now=NOW))
    skip = read(outcome.reasons)
    assert skip == (
        Reason.PLUGIN_ERROR,
        "plugin binpack raised at NodeOrder: IndexError: no such slot",
    )
    assert worker.view.columns.image() == before
    worker.validate()
    assert worker.take_figures().plugin_errors == {"binpack": 1}
    assert len(commit_batch(worker.on_turns([good], now=NOW)).statements) == 1


def test_an_error_outside_plugins_fails_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **named: object) -> None:
        raise ZeroDivisionError("of the engine")

    monkeypatch.setattr("shard_worker.turns.flat_turn._placed", broken)
    worker = worker_with("nowhere")
    with pytest.raises(ZeroDivisionError):
        worker.on_turns([turn(2, cid=ONE)], now=NOW)


def test_the_rule_is_found_behind_functions_that_hold_it() -> None:
    """A point may wrap what a plugin registers, and a plugin its own functions."""

    class Choosing:
        name = "choosing"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_device_choice_fn(lambda task, row, world: self._chosen(task))
            ssn.add_job_valid_fn(partial(_valid, "text"))

        def _chosen(self, task: object) -> Any:
            raise OSError("no device")

    def _valid(text: str, *_: object) -> str:
        raise KeyError(text)

    session = Session(parse_policy("actions: allocate\ntiers: [{plugins: [{name: gang}]}]"))
    with session.speaking(0, PluginOption("choosing")):
        Choosing().on_session_open(session)
    choice: Any = session.rules(DEVICE_CHOICE)[0].scalar
    valid: Any = session.rules(JOB_VALID)[0].fn
    for point, rule, arguments in ((DEVICE_CHOICE, choice, 3), (JOB_VALID, valid, 2)):
        with pytest.raises((OSError, KeyError)) as raised:
            rule(*[None] * arguments)
        assert isinstance(raised.value, Exception)
        error = plugin_error(session, raised.value)
        assert (error.plugin, error.point) == ("choosing", point.name)


def test_a_rule_that_uses_a_name_without_a_value_is_found() -> None:
    class Late:
        name = "late"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_job_valid_fn(lambda *_: later())
            if not ssn.policy.actions:
                later = str

    session = Session(parse_policy("actions: allocate\ntiers: [{plugins: [{name: gang}]}]"))
    with session.speaking(0, PluginOption("late")):
        Late().on_session_open(session)
    valid: Any = session.rules(JOB_VALID)[0].fn
    with pytest.raises(NameError) as raised:
        valid(None, None)
    error = plugin_error(session, raised.value)
    assert (error.plugin, error.point) == ("late", JOB_VALID.name)
