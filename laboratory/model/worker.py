"""Steps of workers and messages: plan a turn, judge a request, lose an answer."""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.model import ledger
from laboratory.model.checks import ModelCheck, Promise
from laboratory.model.ledger import Checks
from laboratory.model.state import (
    ACCEPTED,
    ANSWER,
    BEFORE,
    DEAD,
    FENCED,
    GANG,
    IN_USE,
    MOVING,
    PAUSED,
    REFUSED,
    REQUEST,
    TURN,
    UNANSWERED,
    Message,
    ModelStep,
    Place,
    State,
)

JOB_NAMES = ("the gang", "the single job")
ANSWERS = ("accepted", "refused", "fenced")


def steps(s: State, checks: Checks) -> Iterator[ModelStep]:
    # Equal messages lead to equal states: one of them is enough.
    for message in dict.fromkeys(s.messages):
        if message.kind == TURN:
            yield from _plan(s, message, checks)
        elif message.kind == REQUEST:
            yield from _judge(s, message, checks)


def without(s: State, message: Message, *more: Message) -> State:
    """The state with the message removed and others added."""
    rest = list(s.messages)
    rest.remove(message)
    return s._replace(messages=(*rest, *more))


# --- planning -----------------------------------------------------------------------------------


def own_nodes(shard: int, phase: int) -> Place:
    """The nodes that a worker may use in hard mode once it has seen this phase of the partition."""
    if shard == 0:
        return (0, MOVING) if phase == BEFORE else (0,)
    return (MOVING, 2) if phase == IN_USE else (2,)


def places(job: int, shard: int, phase: int) -> list[Place]:
    """Possible placements of the job. A view's free room may be outdated, so all of it is
    possible."""
    nodes = own_nodes(shard, phase)
    if job == GANG:
        return [nodes] if len(nodes) == 2 else []
    return [(node,) for node in nodes]


def _plan(s: State, turn: Message, checks: Checks) -> Iterator[ModelStep]:
    """The worker reads the log, then plans, and its request is sent."""
    process = s.processes[turn.shard]
    if turn.old:
        epoch, run = turn.epoch, turn.run  # read by the process that was replaced, when it wakes
    elif process.status != PAUSED:
        epoch, run = process.epoch, process.run
    else:
        return
    worker = f"worker {turn.shard}{' (replaced)' if turn.old else ''}"
    if ModelCheck.TURN in checks and epoch != turn.epoch:
        yield ModelStep(f"{worker} leaves a turn of another epoch alone", without(s, turn))
        return
    for place in places(turn.job, turn.shard, s.phase):
        request = Message(REQUEST, turn.job, turn.shard, epoch, run, place)
        text = f"{worker} plans {JOB_NAMES[turn.job]} on {_nodes(place)} under epoch {epoch}"
        yield ModelStep(text, without(s, turn, request))
    if not places(turn.job, turn.shard, s.phase):
        answer = Message(ANSWER, turn.job, turn.shard, turn.epoch, answer=REFUSED)
        yield ModelStep(
            f"{worker} finds no room for {JOB_NAMES[turn.job]}", without(s, turn, answer)
        )


def _nodes(place: Place) -> str:
    return " and ".join(f"node {node}" for node in place)


# --- judging ------------------------------------------------------------------------------------


def _judge(s: State, m: Message, checks: Checks) -> Iterator[ModelStep]:
    verdict = ledger.judge(s, m, checks)
    first = m.answer in (UNANSWERED, FENCED)
    replayed = not first and verdict == m.answer and ModelCheck.IDEMPOTENCY in checks
    broken: tuple[Promise, ...] = ()
    after = s
    if not first and verdict not in (m.answer, FENCED):
        broken = (Promise.REPLAY,)
    elif verdict == ACCEPTED and not replayed:
        broken = ledger.broken(s, m)
    if verdict == ACCEPTED and not replayed:
        after = ledger.apply(s, m)
    again = " again" if m.answer != UNANSWERED else ""
    text = (
        f"the ledger gets the request of worker {m.shard}, epoch {m.epoch}, for "
        f"{JOB_NAMES[m.job]}{again}: {ANSWERS[verdict]}"
    )
    answer = Message(ANSWER, m.job, m.shard, m.epoch, answer=verdict)
    yield ModelStep(text, without(after, m, answer), broken, m)
    if s.cuts and s.processes[m.shard].status != DEAD and verdict != FENCED:
        later = without(after, m, m._replace(answer=verdict))
        yield ModelStep(
            f"{text}, and the answer is lost", later._replace(cuts=s.cuts - 1), broken, m
        )
