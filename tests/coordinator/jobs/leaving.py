"""Short ways to let jobs run, go and be purged."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.instructions import Instruction, Purge, Stop
from coordinator.intake.changes import Changes
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import Epoch, Group, StatusItem, TaskState, Turn
from shared.model.model import Job
from shared.units.slots import CPU
from tests.builders.rows import ONE, node
from tests.coordinator.order.helpers import order, placed

PENDING, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, LOST = TaskState


def coordinator(*jobs: Job, nodes: int = 1, cpus: int = 4) -> Coordinator:
    core = Coordinator(order(nodes=0, window=16, queues=("a", "b")), Dispatcher(1))
    offered = [node(r, cpus=cpus) for r in range(nodes)]
    core.admitted(Changes(classes={0: ONE}, nodes=offered, jobs=list(jobs)))
    core.repartition()
    core.worker_up(0, Epoch(1, "x"))
    return core


def step(core: Coordinator, now: float = 0.0) -> list[Instruction]:
    out = core.step(now)
    core.validate()
    return out


def opened(core: Coordinator, now: float = 0.0) -> dict[int, tuple[int, Turn]]:
    """jid -> (call, turn)."""
    sends = [i for i in step(core, now) if isinstance(i, SendTurns)]
    return {turn.jid: (send.call, turn) for send in sends for turn in send.turns}


def run(core: Coordinator, jid: int, now: float = 0.0) -> None:
    """Place what the job waits for, all of it on row 0, and let it run."""
    call, turn = opened(core, now)[jid]
    core.turns_returned(0, call, [placed(turn)])
    record(core, BOUND, jid, turn.runs[0].tasks)
    record(core, RUNNING, jid, turn.runs[0].tasks)


def record(core: Coordinator, state: TaskState, jid: int, tasks: list[int]) -> None:
    core.recorded([StatusItem(state, jid, tasks, [0] * len(tasks))], [tasks])
    core.validate()


def stop_of(tasks: list[tuple[int, int]]) -> Stop:
    """The instruction for first incarnations, whose uids are their jobs'."""
    return Stop(tasks, [f"u{jid}" for jid, _ in tasks])


def drop(core: Coordinator, *jids: int) -> None:
    core.admitted(Changes(jobs_gone=list(jids)))
    core.validate()


def purge(core: Coordinator, *jids: int) -> None:
    """Step the core, expect the purge, and confirm it as the ledger does."""
    assert [i for i in step(core) if isinstance(i, Purge)] == [Purge(list(jids), [])]
    core.admitted(Changes(jobs_purged=list(jids)))
    core.validate()


def idle(core: Coordinator) -> int:
    """Cores that Order takes for free; the shards' sums must say the same."""
    total = core.order.accounts.capacity.idle[CPU]
    assert total == sum(s.idle[CPU] for s in core.dispatcher.shards.values())
    return total // 1000


def truth(*states: TaskState) -> tuple[JobRecord, dict[int, TaskRecord]]:
    record = JobRecord(spec_version=0, qid=0, gone=True, groups=[Group(-1, 1)])
    tasks = {t: TaskRecord(s, 0, 0, 1) for t, s in enumerate(states) if s is not PENDING}
    return record, tasks


def stopped(
    core: Coordinator, tasks: list[tuple[int, int]], never: list[tuple[int, int]]
) -> list[StatusItem]:
    """The cluster was told to end these, and never had some."""
    questions = sorted({*tasks, *never})
    return core.stopped(questions, core.victims.uids(questions), never)
