"""Like turns that a worker takes as runs: statements and outcomes as if each were tried alone."""

from __future__ import annotations

from random import Random

from shard_worker.view.mode import Mode
from shard_worker.worker.attempts import LikeRun
from shard_worker.worker.instructions import Instruction
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.messages.messages import Answer, CommitReply, Outcome, OutcomeCode, Rows, Turn, Verdict
from tests.examples import examples
from tests.shard_worker.placement.support import EPOCH, cpus, record, session_of, turn, view_of
from tests.shard_worker.worker.test_worker import NOW, commit_batch, outcomes_of

VERDICTS = [Verdict.COMMITTED] * 6 + [
    *(Verdict.RECHECKED, Verdict.FIT, Verdict.NODE, Verdict.QUEUE, Verdict.TASK)
]


class AloneWorker(Worker):
    """Tries each turn by itself."""

    def _repeat(self, turn: Turn, run: LikeRun) -> None:
        del turn, run


def worker_of(kind: type[Worker], limits: WorkerLimits) -> Worker:
    view = view_of([record(allocatable=cpus(4))] * 6, own=range(3))
    worker = kind(session=session_of(), view=view, mode=Mode.SOFT, shard=0, seed=3, limits=limits)
    worker.begin(EPOCH, "run")
    return worker


def drawn_turns(draw: Random, first: int) -> list[Turn]:
    """Mostly of jobs of one task that need the same."""
    turns = [
        turn(
            draw.choice([1] * 9 + [2]),
            jid=jid,
            minimum=draw.choice([1] * 9 + [2]),
            priority=draw.choice([0, 5]),
        )
        for jid in range(first, first + draw.randrange(12))
    ]
    return [replace(each, traced=draw.random() < 0.1) for each in turns]


def reply_of(draw: Random, statements: int) -> CommitReply:
    if draw.random() < 0.1:
        return CommitReply(Verdict.EPOCH, [], Rows([], []))
    answers = [Answer(draw.choice(VERDICTS), 0, []) for _ in range(statements)]
    return CommitReply(Verdict.COMMITTED, answers, Rows([], []))


def test_runs_commit_and_tell_what_turns_by_themselves_do() -> None:
    for seed in range(examples(200)):
        draw = Random(seed)
        limits = WorkerLimits(batch_operations=draw.choice([3, 8, 256]))
        workers = [worker_of(kind, limits) for kind in (Worker, AloneWorker)]
        told: list[list[Outcome]] = [[], []]
        waiting: list[list[Instruction]] = [[], []]

        def take(at: int, instructions: list[Instruction], to: list[list[Outcome]] = told) -> None:
            to[at] += outcomes_of(instructions)
            workers[at].validate()  # noqa: B023

        for number in range(4):
            turns = drawn_turns(draw, 20 * number)
            for at, worker in enumerate(workers):
                waiting[at] += worker.on_turns(turns, now=NOW)
                take(at, waiting[at])
            while workers[0].pending_batch() is not None and draw.random() < 0.8:
                batches = [commit_batch(instructions) for instructions in waiting]
                assert batches[0] == batches[1], (seed, number)
                reply = reply_of(draw, len(batches[0].statements))
                for at, worker in enumerate(workers):
                    waiting[at] = worker.on_reply(reply)
                    take(at, waiting[at])
            assert told[0] == told[1], (seed, number)
            assert workers[0].view.columns.image() == workers[1].view.columns.image()
            assert workers[0].take_figures() == workers[1].take_figures()


def test_a_class_that_is_gone_makes_a_like_turn_stale() -> None:
    worker = worker_of(Worker, WorkerLimits())
    batch = commit_batch(worker.on_turns([turn(1, jid=1), turn(1, jid=2)], now=NOW))
    answers = [Answer(Verdict.COMMITTED, 0, [])] * len(batch.statements)
    worker.on_reply(CommitReply(Verdict.COMMITTED, answers, Rows([], [])))
    del worker.view.classes[0]
    (outcome,) = outcomes_of(worker.on_turns([turn(1, jid=3)], now=NOW))
    assert outcome.code is OutcomeCode.STALE
