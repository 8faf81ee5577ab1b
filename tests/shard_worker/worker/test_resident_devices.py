"""Devices that a plugin chose for a task are with it in every later world, in whichever shard."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shard_worker.dialects.volcano import registry
from shard_worker.framework.plugin import Check, PluginOption, Scope, Session, TaskInfo, World
from shared.codec.packed import replace
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import ACCEPTED, ALLOCATE, OutcomeCode, Run, Statement, TaskState
from shared.model.model import Job
from shared.policy.model import Policy
from shared.units.things import Things
from tests.shard_worker.placement.support import node, put_node
from tests.shard_worker.worker.test_residents import ROWS, ResidentsStage

SLOTS = ("bay/0", "bay/1", "bay/2")


class Bays:
    """A plugin of somebody else's: every task has a bay of its node for itself. It goes by what the
    tasks on a node have, and by nothing else."""

    name = "bays"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_live_predicate_fn(self.room, scope=Scope.NODE)
        ssn.add_device_choice_fn(self.take)

    def room(self, task: TaskInfo, world: World) -> Sequence[Check]:
        mask = world.view.exists()
        mask[:] = [bool(self.free(world, row)) for row in range(world.size)]
        return [Check("no bay is free", mask, curable=True)]

    def take(self, task: TaskInfo, row: int, world: World) -> Things:
        return ((self.free(world, row)[0], (1,)),)

    @staticmethod
    def free(world: World, row: int) -> list[str]:
        devices = {name for there in world.tasks_on(row) for name, _ in there.devices}
        return [name for name in SLOTS if name not in devices]


class _DevicesEntry:
    value = "bays:Bays"

    def load(self) -> type[Bays]:
        return Bays


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ResidentsStage:
    """Two shards with two nodes of 4 cores and 3 bays each."""
    monkeypatch.setattr(registry, "third_party_plugins", lambda: {"bays": _DevicesEntry()})
    names = ("priority", "gang", "predicates", "bays")
    stage = ResidentsStage(Policy(("allocate",), (tuple(PluginOption(name) for name in names),)))
    bays = tuple((name, (1,)) for name in SLOTS)
    nodes = (replace(put_node(node(row, cores=4)), things=bays) for row in range(ROWS))
    at_once(stage.desk.store(*nodes))
    return stage


def taken(stage: ResidentsStage, jobs: Sequence[Job]) -> list[tuple[int, str]]:
    """Row and bay of each task, as the ledger has them."""
    snapshot, result = at_once(stage.ledger.snapshot()), []
    for job in jobs:
        for tix, row in enumerate(stage.books.rows[job.jid]):
            ((name, _),) = snapshot.tasks[job.jid][tix].devices
            result.append((row, name))
    return result


def test_devices_chosen_by_one_shard_are_seen_by_the_other(stage: ResidentsStage) -> None:
    jobs = [stage.job(1) for _ in range(ROWS * len(SLOTS))]
    for job in jobs:
        assert stage.turn(job.jid % 2, job).code is OutcomeCode.PLACED
        stage.report(job, TaskState.RUNNING, 0)
    assert sorted(taken(stage, jobs)) == [(row, name) for row in range(ROWS) for name in SLOTS]
    for shard in (0, 1):
        assert stage.turn(shard, stage.job(1)).reasons == {"no bay is free": ROWS}


def test_a_restarted_worker_sees_residents_and_an_ended_task_is_none(stage: ResidentsStage) -> None:
    jobs = [stage.job(1) for _ in range(ROWS * len(SLOTS))]
    for job in jobs:
        stage.turn(0, job)
    stage.start(1)
    assert stage.turn(1, stage.job(1)).code is OutcomeCode.INFEASIBLE
    freed = taken(stage, jobs[5:6])
    stage.report(jobs[5], TaskState.SUCCEEDED, 0)
    late = stage.job(1)
    assert stage.turn(1, late).code is OutcomeCode.PLACED
    assert taken(stage, [late]) == freed


def test_a_turn_carries_the_devices_of_its_own_job(stage: ResidentsStage) -> None:
    """The table of residents is not asked for it."""
    job = stage.job(2, minimum=1)
    run = Run(ALLOCATE, 0, 0, [0], [0], [10**6], [1], [1], devices=((SLOTS[0], (1,)),))
    statement = Statement(job.jid, 1, 0, 0, [run], [], [], [])
    assert at_once(stage.desk.commit(statement, writer="1")).answers[0].verdict in ACCEPTED
    books = stage.books
    books.states[job.jid][0], books.rows[job.jid][0] = TaskState.BINDING, 0
    books.devices[job.jid] = {0: run.devices}
    assert stage.turn(0, job).code is OutcomeCode.PLACED
    assert len({*taken(stage, [job])}) == 2
