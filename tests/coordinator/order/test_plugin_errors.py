"""A plugin of a third party that raises in the coordinator: its jobs wait, the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.plugin_errors import PluginError
from shared.codec.packed import replace
from shared.messages.reason import Reason
from shared.model.model import Job
from shared.policy.dialect import parse_policy
from shared.units.slots import CPU
from tests.builders.rows import job
from tests.coordinator.order.helpers import order
from tests.shard_worker.framework.installed import frail_policy, install_frail

pytestmark = pytest.mark.usefixtures("_frail")


@pytest.fixture
def _frail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_frail(tmp_path, monkeypatch)


EVERYWHERE = (
    "JobOrder",
    "JobValid",
    "Overused",
    "QueueOrder",
    "Allocatable",
    "TaskOrder",
    "JobStarving",
    "JobEnqueueable",
)
"""The points at which the coordinator asks before it tries a job."""


def named(jid: int, name: str, queue: str = "a") -> Job:
    """Three tasks where it is to be refused, one where not; enqueue has to admit both."""
    job_item = job(jid, queue=queue, count=3 if name.startswith("bad") else 1)
    return replace(job_item, name=name, min_resources=((CPU, 1000),))


def order_with(at: str, caught: list[PluginError]) -> Order:
    new_order = order(queues=("a", "frail"), window=16)
    session = open_session(parse_policy(frail_policy(at)))
    session.contain = caught.append
    new_order.adopt(session)
    return new_order


def turns(of: Order) -> list[int]:
    of.begin(0.0)
    results = []
    while (turn := of.next_turn()) is not None:
        results.append(turn.jid)
    return results


@pytest.mark.parametrize("at", EVERYWHERE)
def test_the_job_waits_with_the_name_and_the_others_have_their_turns(at: str) -> None:
    caught: list[PluginError] = []
    core = Coordinator(order_with(at, caught), Dispatcher(1))
    core.order.put_job(named(1, "bad", queue="frail"))
    core.order.put_job(named(2, "good"))
    assert turns(core.order) == [2]
    assert {error.point for error in caught} == {at}
    before = len(caught)
    reason = why(core, core.order.jobs[1])
    assert reason is not None
    assert reason.reason is Reason.PLUGIN_ERROR
    assert reason.message.startswith(f"plugin frail raised at {at}: ")
    assert len(caught) == before  # who asks why counts nothing
    assert turns(core.order) == []


def test_a_policy_without_it_lets_the_job_go() -> None:
    caught: list[PluginError] = []
    waiting = order_with("JobOrder", caught)
    waiting.put_job(named(1, "bad"))
    assert turns(waiting) == []
    assert waiting.jobs[1].reason is Reason.PLUGIN_ERROR
    waiting.adopt(
        open_session(parse_policy("actions: allocate\ntiers: [{plugins: [{name: gang}]}]"))
    )
    assert turns(waiting) == [1]


def test_it_is_asked_again_after_the_capacity_has_changed() -> None:
    caught: list[PluginError] = []
    waiting = order_with("JobOrder", caught)
    waiting.put_job(named(1, "bad"))
    waiting.begin(10.0)
    calls = len(caught)
    waiting.begin(20.0)
    assert len(caught) == calls
    waiting.accounts.capacity.freed()
    waiting.begin(30.0)
    assert len(caught) == calls + 1
    assert waiting.jobs[1].reason is Reason.PLUGIN_ERROR


def test_a_rule_that_begins_to_raise_at_the_door_is_named() -> None:
    """The job came into line before, and enqueue judges it by a rule that raises since."""
    caught: list[PluginError] = []
    core = Coordinator(order_with("JobEnqueueable", caught), Dispatcher(1))
    core.order.put_job(named(1, "late"))
    (state,) = core.order.jobs.values()
    core.order.begin(0.0)
    assert core.order.admission.waiting == {}  # admitted at once
    state.info.phase = "Pending"
    state.info.job = replace(state.job, name="bad")
    core.order.admission.passes(state, core.order.accounts.cluster)
    core.order.accounts.cluster.revision += 1
    core.order.begin(10.0)
    assert core.order.admission.why == {1: Reason.PLUGIN_ERROR}
