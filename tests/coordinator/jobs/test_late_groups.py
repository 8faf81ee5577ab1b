"""When a pod that was named a group late is moved to it: not while a turn may place it."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.instructions import Regroup
from coordinator.intake.changes import Changes
from shared.codec.packed import replace
from shared.manifests.fields.metadata import GROUP_DEADLINE, LATE_GROUP
from shared.messages.messages import Outcome, OutcomeCode
from shared.messages.reason import Reason
from shared.model.model import Job
from tests.builders.rows import job
from tests.coordinator.jobs.leaving import BOUND, PENDING, coordinator, opened, record, step
from tests.coordinator.order.helpers import placed

LONE, GANG = 1, 2


def lone() -> Job:
    return replace(job(LONE), kind="Pod")


def named(core: Coordinator) -> None:
    """The pod's group is named, and stored."""
    before = core.order.jobs[LONE].job
    group = replace(before, annotations=((LATE_GROUP, "g"),), spec=before.spec + 1)
    core.admitted(Changes(jobs=[group]))


def moves(core: Coordinator, now: float = 0.0) -> list[Regroup]:
    return [each for each in step(core, now) if isinstance(each, Regroup)]


def test_a_waiting_pod_is_moved_and_gets_no_turn_meanwhile() -> None:
    core = coordinator(lone(), cpus=0)
    step(core)
    named(core)
    assert moves(core) == [Regroup([LONE])]
    assert moves(core) == [], "it is being stored"
    reason = why(core, core.order.jobs[LONE])
    assert reason is not None
    assert (reason.reason, "PodGroup g" in reason.message) == (Reason.GATED, True)
    gang = job(GANG, queue="b")
    core.admitted(Changes(jobs=[gang], jobs_gone=[LONE], jobs_purged=[LONE]))
    core.order.late_groups.stored([LONE], core.order.jobs)
    step(core)
    assert list(core.order.jobs) == [GANG]
    assert not core.leaving


def test_an_open_turn_is_awaited_and_its_placements_stay() -> None:
    core = coordinator(lone())
    call, turn = opened(core)[LONE]
    named(core)
    assert moves(core) == []
    core.turns_returned(0, call, [placed(turn)])
    assert moves(core) == []
    record(core, BOUND, LONE, [0])
    assert moves(core) == []


def test_after_an_open_turn_that_placed_nothing_the_pod_is_moved() -> None:
    core = coordinator(lone())
    call, turn = opened(core)[LONE]
    named(core)
    nowhere = Outcome(jid=turn.jid, code=OutcomeCode.INFEASIBLE, placements=[], reasons={})
    core.turns_returned(0, call, [nowhere])
    assert moves(core) == [Regroup([LONE])]


def test_a_pod_whose_bind_was_refused_stays_a_job_of_its_own() -> None:
    """A late copy of the request may still start it under its present number."""
    core = coordinator(lone())
    call, turn = opened(core)[LONE]
    named(core)
    core.turns_returned(0, call, [placed(turn)])
    assert moves(core) == []
    record(core, PENDING, LONE, [0])
    assert moves(core) == [Regroup([], apart=[LONE])]


def test_a_move_that_could_not_be_stored_is_due_again() -> None:
    core = coordinator(lone(), cpus=0)
    named(core)
    assert moves(core) == [Regroup([LONE])]
    core.order.late_groups.stored([LONE], core.order.jobs)
    assert moves(core) == [Regroup([LONE])]


def test_a_pod_waits_for_its_group_until_the_deadline_and_then_gets_a_turn() -> None:
    core = coordinator(replace(lone(), annotations=((GROUP_DEADLINE, "10.0"),)))
    assert opened(core) == {}
    reason = why(core, core.order.jobs[LONE])
    assert reason is not None
    assert (reason.reason, "no controller has named" in reason.message) == (Reason.GATED, True)
    assert core.order.next_due() == 10.0
    assert moves(core, 9.0) == []
    assert moves(core, 10.0) == [Regroup([], expired=[LONE])]
    assert moves(core, 11.0) == []
    core.admitted(Changes(jobs=[replace(lone(), spec=1)]))
    core.order.late_groups.stored([LONE], core.order.jobs)
    assert list(opened(core, 11.0)) == [LONE]
