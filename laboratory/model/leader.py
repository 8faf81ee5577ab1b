"""Steps of coordinators: take the leadership, send turns, replace workers, hand a node over."""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.model import ledger
from laboratory.model.checks import ModelCheck, Promise
from laboratory.model.ledger import Checks
from laboratory.model.state import (
    ACCEPTED,
    ANSWER,
    BEFORE,
    CLAIMED,
    DESIRED,
    ELECTED,
    FENCED,
    GONE,
    IN_USE,
    JOBS,
    LEADING,
    PAUSED,
    PENDING,
    PLACED,
    RECOVERED,
    SHARDS,
    SINGLE,
    STANDBY,
    TURN,
    UNCHANGED,
    UP,
    Message,
    ModelCoordinator,
    ModelProcess,
    ModelStep,
    State,
    awaits,
    with_item,
)
from laboratory.model.worker import ANSWERS, JOB_NAMES, places, without


def steps(s: State, checks: Checks) -> Iterator[ModelStep]:
    for index, c in enumerate(s.coordinators):
        if c.paused:
            continue
        match c.role:
            case 0:
                yield from _take_leadership(s, index, checks)
            case 1:
                yield from _claim_shards(s, index, checks)
            case 2:
                yield _recover(s, index)
            case 3:
                yield _bless(s, index, checks)
            case _:
                yield from _lead(s, index, checks)


def put(s: State, index: int, c: ModelCoordinator) -> State:
    return s._replace(coordinators=with_item(s.coordinators, index, c))


def _step_down(s: State, index: int, text: str) -> ModelStep:
    return ModelStep(f"{text}: deposed, it stands by", put(s, index, ModelCoordinator()))


def _name(c: ModelCoordinator) -> str:
    return f"coordinator of leadership {c.leadership}" if c.role != STANDBY else "the standby"


# --- taking the leadership ------------------------------------------------------------------------


def _take_leadership(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    # Each check of the ledger can be left out here: the exploration has to find a state that breaks
    # a promise then, or the check is not needed.
    if ModelCheck.LEADERSHIP in checks and s.lease_lasts:
        return
    leadership = 1 + max(s.leadership, *(c.leadership for c in s.coordinators))
    after = put(s, index, ModelCoordinator(ELECTED, leadership=leadership))
    broken = (Promise.FENCE,) if s.lease_lasts else ()
    yield ModelStep(
        f"the standby claims the leadership: {leadership}",
        after._replace(leadership=leadership, lease_lasts=True),
        broken,
    )


def _next_epoch(s: State, shard: int) -> int:
    return 1 + max(
        s.shards[shard],
        s.processes[shard].epoch,
        *(c.shards[shard] for c in s.coordinators),
        *(m.epoch for m in s.messages if m.shard == shard),
    )


def _claim_shards(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    c = s.coordinators[index]
    if not ledger.leads(s, c, checks):
        yield _step_down(s, index, f"the {_name(c)} claims the shards")
        return
    epochs = (_next_epoch(s, 0), _next_epoch(s, 1))
    after = put(s, index, c._replace(role=CLAIMED, shards=epochs))
    yield ModelStep(
        f"the {_name(c)} claims both shards: {epochs[0]}, {epochs[1]}",
        after._replace(shards=epochs, lasts=(True, True)),
    )


def _believed(s: State, job: int) -> int:
    """The state of a job, by the ledger."""
    if s.places[job] != ():
        return PLACED
    return GONE if job == SINGLE and s.change != UNCHANGED else PENDING


def _recover(s: State, index: int) -> ModelStep:
    """Read the ledger and the cluster; tasks that only the cluster has are adopted into the
    ledger."""
    c = s.coordinators[index]
    repaired = s._replace(places=tuple(s.cluster[j] or s.places[j] for j in JOBS))  # type: ignore[arg-type]
    recovered = c._replace(
        role=RECOVERED,
        jobs=(_believed(repaired, 0), _believed(repaired, 1)),
        run=s.run,
    )
    return ModelStep(
        f"the {_name(c)} recovers from ledger and cluster", put(repaired, index, recovered)
    )


def _bless(s: State, index: int, checks: Checks) -> ModelStep:
    c = s.coordinators[index]
    text = f"the {_name(c)} blesses run {s.run}"
    if not ledger.leads(s, c, checks):
        return _step_down(s, index, text)
    if ModelCheck.BEHIND in checks and ledger.behind(s, c, checks):
        return _start_over(s, index, text)
    after = s._replace(blessed=s.run)
    for shard in SHARDS:
        after = _begin_worker(after, shard, c.shards[shard], s.run)
    after = put(after, index, c._replace(role=LEADING, run=s.run))
    return ModelStep(text, after, ledger.accepted_too_early(s))


def _start_over(s: State, index: int, text: str) -> ModelStep:
    """The ledger is an old copy: the coordinator ends and starts again."""
    after = put(s, index, ModelCoordinator())
    return ModelStep(
        f"{text}: it lacks what was seen, all is read anew", after._replace(lease_lasts=False)
    )


def _begin_worker(s: State, shard: int, epoch: int, run: int) -> State:
    """Adopt the existing worker process under a new epoch, or replace one that cannot answer. A
    paused one reads the turns that it has not read yet when it resumes, under its old epoch."""
    messages = s.messages
    if s.processes[shard].status == PAUSED:
        old = s.processes[shard]
        messages = tuple(
            m._replace(old=True, run=old.run) if _unread(m, shard) else m for m in messages
        )
    elif s.processes[shard].status != UP:
        messages = tuple(m for m in messages if not _unread(m, shard))
    return s._replace(
        processes=with_item(s.processes, shard, ModelProcess(epoch, run)),
        lasts=with_item(s.lasts, shard, True),
        messages=messages,
    )


def _unread(m: Message, shard: int) -> bool:
    return m.kind == TURN and m.shard == shard and not m.old


# --- leading --------------------------------------------------------------------------------------


def _lead(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    yield from _send_turns(s, index)
    yield from _take_answers(s, index)
    yield from _give_up(s, index, checks)
    yield from _bless_again(s, index, checks)
    yield from _hand_over(s, index, checks)
    yield from _change(s, index, checks)
    yield from _bind(s, index)


def _send_turns(s: State, index: int) -> Iterator[ModelStep]:
    c = s.coordinators[index]
    for job in JOBS:
        if c.jobs[job] != PENDING:
            continue
        for shard in SHARDS:
            if places(job, shard, s.phase):
                turn = Message(TURN, job, shard, c.shards[shard])
                after = put(s, index, c._replace(jobs=with_item(c.jobs, job, 2 * shard)))
                yield ModelStep(
                    f"the {_name(c)} sends {JOB_NAMES[job]} to worker {shard}",
                    after._replace(messages=(*s.messages, turn)),
                )


def _in_flight(belief: int, shard: int) -> bool:
    return belief >> 1 == shard


def _take_answers(s: State, index: int) -> Iterator[ModelStep]:
    c = s.coordinators[index]
    for m in s.messages:
        if m.kind == ANSWER and m.answer != FENCED and awaits(c, m):
            yield hear(s, index, m)


def hear(s: State, index: int, m: Message) -> ModelStep:
    """Process an answer that this coordinator waits for."""
    c = s.coordinators[index]
    deleted = m.job == SINGLE and s.change != UNCHANGED
    belief = PLACED if m.answer == ACCEPTED else GONE if deleted else PENDING
    after = put(s, index, c._replace(jobs=with_item(c.jobs, m.job, belief)))
    text = f"the {_name(c)} hears of {JOB_NAMES[m.job]}: {ANSWERS[m.answer]}"
    return ModelStep(text, without(after, m))


def _give_up(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    """Claim the shard, then read the results of its turns, then start another worker."""
    c = s.coordinators[index]
    if c.run != s.run:
        return  # it blesses the new run first
    for shard in SHARDS:
        if not _looks_lost(s, c, shard):
            continue
        text = f"the {_name(c)} gives worker {shard} up"
        if not ledger.leads(s, c, checks):
            yield _step_down(s, index, text)
            return
        epoch = _next_epoch(s, shard)
        beliefs = tuple(
            _believed(s, job) if _in_flight(c.jobs[job], shard) else c.jobs[job] for job in JOBS
        )
        updated = c._replace(
            jobs=(beliefs[0], beliefs[1]),
            shards=with_item(c.shards, shard, epoch),
        )
        after = _begin_worker(put(s, index, updated), shard, epoch, c.run)
        yield ModelStep(
            f"{text}, claims {epoch} and reads what became of its turns",
            after._replace(shards=with_item(s.shards, shard, epoch)),
        )


def _looks_lost(s: State, c: ModelCoordinator, shard: int) -> bool:
    """Whether a worker seems lost to the coordinator: no answer, another run, or refused
    requests."""
    process = s.processes[shard]
    if process.status != UP or process.run != c.run or process.epoch != c.shards[shard]:
        return True
    return any(
        m.kind == ANSWER and m.answer == FENCED and (m.shard, m.epoch) == (shard, c.shards[shard])
        for m in s.messages
    )


def _bless_again(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    """Accept the run of a server that was restarted under a living leader."""
    c = s.coordinators[index]
    if c.run == s.run:
        return
    text = f"the {_name(c)} blesses run {s.run} as well"
    if not ledger.leads(s, c, checks):
        yield _step_down(s, index, text)
    elif ModelCheck.BEHIND in checks and ledger.behind(s, c, checks):
        yield _start_over(s, index, text)
    else:
        after = put(s._replace(blessed=s.run), index, c._replace(run=s.run))
        yield ModelStep(text, after, ledger.accepted_too_early(s))


def _hand_over(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    c = s.coordinators[index]
    if not ledger.may_write(s, c, checks):
        return
    first, second = c.jobs
    if s.phase == BEFORE:
        updated = c._replace(jobs=(first | (first < PENDING), second | (second < PENDING)))
        after = put(s, index, updated)._replace(phase=DESIRED)
        yield ModelStep(f"the {_name(c)} asks worker 0 to leave node 1", after)
    elif s.phase == DESIRED and (ModelCheck.DRAIN not in checks or 1 not in (first, second)):
        updated = c._replace(
            jobs=(
                first & ~1 if first < PENDING else first,
                second & ~1 if second < PENDING else second,
            )
        )
        after = put(s, index, updated)._replace(phase=IN_USE)
        yield ModelStep(f"the {_name(c)} gives node 1 to worker 1", after)


def _change(s: State, index: int, checks: Checks) -> Iterator[ModelStep]:
    """The user deletes the single job or a member of it, or cordons the moving node."""
    c = s.coordinators[index]
    if not s.changes or not ledger.may_write(s, c, checks):
        return
    less = s._replace(changes=0)
    if s.places[SINGLE] == ():
        belief = GONE if c.jobs[SINGLE] == PENDING else c.jobs[SINGLE]
        deleted = put(less, index, c._replace(jobs=with_item(c.jobs, SINGLE, belief)))
        yield ModelStep("the single job is deleted", deleted._replace(change=1))
        yield ModelStep("the member of the single job is deleted", deleted._replace(change=2))
    yield ModelStep("node 1 is cordoned", less._replace(cordoned=True))


def _bind(s: State, index: int) -> Iterator[ModelStep]:
    """Bind in the cluster what the bind stream contains. A deposed leader reads the same stream."""
    c = s.coordinators[index]
    if s.leadership != c.leadership or not s.crashes:
        return
    for job in JOBS:
        if s.places[job] != () and s.cluster[job] == ():
            full = any(node in s.cluster[1 - job] for node in s.places[job])
            after = s._replace(cluster=with_item(s.cluster, job, s.places[job]))
            text = f"the {_name(c)} has the cluster run {JOB_NAMES[job]}"
            yield ModelStep(text, after, (Promise.ROOM,) if full else ())
