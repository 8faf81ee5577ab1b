"""Statements that evict, and what the ledger has of their victims, for tests."""

from __future__ import annotations

from shared.codec.packed import replace
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import TaskRecord
from shared.messages.messages import (
    NOMINATE,
    CommitReply,
    EvictRun,
    Group,
    Statement,
    StatusItem,
    TaskState,
    Verdict,
)
from tests.shared.ledger.support import (
    BIG,
    Desk,
    job,
    run,
    statement,
)

S, V = TaskState, Verdict
VICTIM, WINNER, THIRD, OTHER_VICTIM = 7, 8, 9, 10


def victims(
    tasks: list[int],
    rows: list[int],
    *,
    jid: int = VICTIM,
    cid: int = BIG,
    group: int = 0,
    version: int = 1,
) -> EvictRun:
    return EvictRun(jid, version, cid, group, tasks, rows, guards=0)


def evicting(*runs: EvictRun, by: int = WINNER, guards: int = 0, place: bool = False) -> Statement:
    """``guards``: of every run. ``place``: what preempts is to come to node 0, where the victims
    are."""
    core = [run([0], [0], kind=NOMINATE, cid=BIG)] if place else []
    plain = statement(by, *core, expiry=9e9)
    evictions = [replace(run, guards=run.guards | guards) for run in runs]
    return replace(plain, evictions=evictions, reason="preempt: priority")


def verdict(reply: CommitReply) -> tuple[Verdict, int]:
    return reply.answers[0].verdict, reply.answers[0].at


async def record(desk: Desk, jid: int, tix: int) -> TaskRecord | None:
    return (await desk.ledger.snapshot()).tasks.get(jid, {}).get(tix)


async def plain(desk: Desk) -> Snapshot:
    return replace(await desk.ledger.snapshot(), log_id="")


async def running(desk: Desk, *groups: Group, members: int = 2) -> None:
    """A job that fills node 0, member after member (two), and what wants its place."""
    await desk.store(job(VICTIM, *groups), job(WINNER), job(THIRD))
    await desk.commit(statement(VICTIM, run([*range(members)], [0] * members, cid=BIG)))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [*range(members)], [0] * members))
