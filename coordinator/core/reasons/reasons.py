"""Why a job waits: one reason of a closed list and one sentence with amounts.

Everything follows from the coordinator's own state (the job's state, its last turn's result, totals
of cluster and queue), so that it costs microseconds and no call. What needs a look at every node is
added by :mod:`coordinator.explain.explainer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.closed_nodes import closed_idle
from coordinator.core.reasons.facts import balance, entry_figures, never
from coordinator.core.reasons.quota import quota_wait
from coordinator.jobs.accounts import Accounts
from coordinator.jobs.capability import QueueBound, within_capability
from coordinator.jobs.gate_removals import fillable
from coordinator.jobs.pending_order import Line, PendingQueue
from coordinator.jobs.pending_reasons import (
    INSUFFICIENT,
    Why,
    cut,
    no_node_takes,
    of_counts,
    of_invalid,
    skip_of,
    tasks_of,
    told_counts,
)
from coordinator.jobs.state import (
    JobState,
    LastTurn,
    Need,
    SchedulingStatus,
    amounts,
    core_need,
    gated,
)
from shard_worker.dialects.volcano.actions.enqueue import refusal
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.session_model.native_groups import named_group
from shard_worker.session_model.queue_totals import QUEUE_GATE
from shard_worker.session_model.workload import Amounts, QueueInfo
from shard_worker.view.node_reasons import PARTLY
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode
from shared.messages.reason import HoldReason, Reason, WaitReason
from shared.units.amount_text import listed, plural, some
from shared.units.slots import BASE

_LOOKED = frozenset({OutcomeCode.INFEASIBLE, OutcomeCode.PLACED})
"""Outcomes whose reasons count nodes; those of a conflict count refusals."""


def why(core: Coordinator, state: JobState, *, names: Sequence[str] = BASE) -> Why | None:
    """Why a job waits; None where no task of it waits. ``names``: the resource of each slot."""
    if state.status in (SchedulingStatus.DONE, SchedulingStatus.SETTLED):
        return None
    judge, session = _Judge(core, state, names), core.order.session
    if not session.guarded:
        return judge.judge()
    with session.watching() as errors:
        verdict = judge.judge()
    return judge.raised(errors[0]) if errors else verdict


def kept_out_by(
    core: Coordinator, queue: QueueInfo, line: Line, names: Sequence[str] = BASE
) -> Reason | None:
    """The reason that keeps every job of a line out until somebody changes something; None for
    none. It takes precedence over reasons that time resolves."""
    obstacle = never(core, queue, line.need, classes=core.order.accounts.classes, names=names)
    if obstacle is not None:
        return obstacle.reason
    return None if queue.queue.open else Reason.QUEUE_CLOSED


def line_words(
    core: Coordinator, line: Line, names: Sequence[str] = BASE
) -> dict[WaitReason, Reason]:
    """The reason of the jobs of a line, as :func:`why` returns it for each, by the reason that each
    has of its own."""
    queue = line.queue.info
    obstacle = kept_out_by(core, queue, line, names)
    if obstacle is not None:
        return dict.fromkeys(line.reasons, obstacle)
    first = core.order.lines.first_of(line)
    # What holds back the first of a line holds back the rest: one job's last turn speaks for all of
    # them, and no other job of a long line is asked.
    last = None if first is None else first.last
    looked = last is not None and bool(last.reasons) and last.code in _LOOKED
    message = placeless(last.reasons) if last is not None and looked else None
    return {
        reason: _line_word(core, line, reason, message)
        for reason, count in line.reasons.items()
        if count
    }


def _line_word(core: Coordinator, line: Line, reason: WaitReason, last: Reason | None) -> Reason:
    if reason is Reason.REPEATED_CONFLICT:
        return reason
    holder = held_by(core, line.queue.info, line.need, line.amounts, reason=reason, last=last)
    match holder:
        case HeldBy.LAST_TURN:
            assert last is not None
            return last
        case HeldBy.ROOM:
            return Reason.NOT_ENOUGH_RESOURCES
        case HeldBy.QUOTA:
            return Reason.WAITING_FOR_QUOTA
        case None if reason is HoldReason.BIND_FAILED:
            return Reason.PENDING_EVALUATION
        case None:
            return untried(core, line.queue)


class HeldBy(Enum):
    """Cause that keeps an eligible job from being placed."""

    LAST_TURN = "last turn"
    ROOM = "room"
    QUOTA = "quota"


@contextmanager
def uncharged(accounts: Accounts, state: JobState) -> Iterator[None]:
    """Take the charge of the job's open turn out of the totals meanwhile: they count the job as if
    it were placed. To be left before anything else runs."""
    charge = state.charge
    accounts.give_back(state)
    try:
        yield
    finally:
        accounts.promise(state, charge)


def held_by(
    core: Coordinator,
    queue: QueueInfo,
    need: Need,
    needed: Amounts,
    *,
    reason: WaitReason,
    last: Reason | None,
) -> HeldBy | None:
    """Return the cause that holds an eligible job back; None where none is known.

    The only place that ranks room, quota and the last turn: an explanation and the counts by reason
    both ask it. ``needed``: the amounts of ``need``. ``reason``: the job's own; ``last``: that of
    the last turn which found no place for it, or for the first of its line.
    """
    if last is not None and last.rank < Reason.WAITING_FOR_QUOTA.rank:
        return HeldBy.LAST_TURN  # no room that is made, and no quota, would help
    order = core.order
    if not order.accounts.capacity.covers(needed):
        within = within_capability(order.lines.queues, queue, needed)
        return HeldBy.ROOM if within else HeldBy.QUOTA
    if reason is Reason.WAITING_FOR_QUOTA or not order.picking.allowed(queue, need):
        return HeldBy.QUOTA
    return None if last is None else HeldBy.LAST_TURN


def untried(core: Coordinator, queue: PendingQueue) -> Reason:
    """The reason of a queue's jobs that nothing blocks, as :func:`why` returns it."""
    if core.order.session.overused(queue.info, core.order.accounts.cluster):
        return Reason.WAITING_FOR_QUOTA
    return Reason.WAITING_FOR_TURN if queue.waiting > 1 else Reason.PENDING_EVALUATION


def placeless(counts: Mapping[str, int]) -> Reason:
    """The reason where the totals suffice, but a session found no place."""
    if (skip := skip_of(counts)) is not None:
        return skip[0]
    reason = of_counts(counts)
    lacks = any(text.startswith(INSUFFICIENT) or text == PARTLY for text in counts)
    return Reason.FRAGMENTED if lacks and reason is Reason.NOT_ENOUGH_RESOURCES else reason


# --- the judgement of one job -------------------------------------------------------------------


class _Judge:
    def __init__(self, core: Coordinator, state: JobState, names: Sequence[str]) -> None:
        self.core = core
        self.order = core.order
        self.state = state
        self.names = names
        self.classes = self.order.accounts.classes

    def judge(self) -> Why | None:
        """The first reason that applies, in the order of the list."""
        state, job = self.state, self.state.job
        if job.dangling:  # its queue is not known before
            return self._say(
                Reason.MISCONFIGURED,
                f"its pods name {named_group(job)}, which does not exist; create it",
            )
        eligibility = self.order.session.eligibility
        kept_out = eligibility.kept_out(state.info, self.order.accounts.cluster)
        if kept_out is not None and not eligibility.in_pool(job):
            return self._say(*kept_out)
        if state.info.qid < 0 and (where := self.core.queues.where(job.queue)):
            return self._say(Reason.MISCONFIGURED, where)
        if state.info.qid < 0:
            fix = f"create queue {job.queue}, or name another in the job"
            return self._say(Reason.MISCONFIGURED, f"queue {job.queue} does not exist; {fix}")
        if kept_out is not None and (state.info.pending or any(state.info.best_effort)):
            return self._say(*kept_out)
        if not state.info.pending:
            return self._best_effort()
        need = self._need()
        if not need:
            return self._gated()
        obstacle = never(self.core, self._queue(), need, classes=self.classes, names=self.names)
        if obstacle is not None:
            return self._amounts(obstacle.reason, obstacle.message, need, bound=obstacle.bound)
        if not self._queue().queue.open:
            return self._say(Reason.QUEUE_CLOSED, f"queue {job.queue} is closed; open it")
        missing = self.order.session.job_valid(state.info, self.order.accounts.cluster)
        if missing is not None:
            return self._say(*of_invalid(missing))
        return self._waits(need)

    def _best_effort(self) -> Why | None:
        """Why a job waits whose remaining tasks are all best-effort."""
        state, count = self.state, sum(self.state.info.best_effort[:1])
        if not state.states and state.job.jid in self.order.admission.waiting:
            return self._at_the_door()  # its controller makes the pods after its admission
        if not count:
            return None
        tasks = f"{plural(count, 'task')} ask for no resource"
        if not self._queue().queue.open:
            return self._say(Reason.QUEUE_CLOSED, f"queue {state.job.queue} is closed; open it")
        missing = self.order.session.job_valid(state.info, self.order.accounts.cluster)
        if missing is not None:
            return self._say(*of_invalid(missing))
        if state.job.jid in self.order.admission.waiting:
            return self._at_the_door()
        if not fillable(state):
            return self._gated()
        if state.last is not None and (verdict := self._after_try(state.last, ())) is not None:
            return verdict
        return self._say(Reason.PENDING_EVALUATION, f"{tasks}: backfill places them")

    def _gated(self) -> Why:
        """The answer for a job whose remaining tasks all have scheduling gates."""
        roles = [role for role in self.state.job.roles if gated(role)]
        count = sum(len(self.state.pending(role, role.count)) or role.count for role in roles)
        text = f"{plural(count, 'task')} have scheduling gates; they wait until "
        if any(role.own_gate for role in roles):
            text += f'the pods say {QUEUE_GATE}: "true" in their annotations, or '
        return self._say(Reason.GATED, f"{text}whoever set those takes them away")

    def _at_the_door(self) -> Why:
        """The answer for a job that the action enqueue has not admitted."""
        skip = self.order.admission.why.get(self.state.job.jid)
        if skip is None:
            return self._say(Reason.PENDING_EVALUATION, "enqueue has not judged it yet")
        _, text = refusal(self.order.session, self.order.accounts.cluster, self.state.info)
        figures = entry_figures(self.core, self._queue(), self.state.info, self.names)
        return self._say(skip, f"not admitted by enqueue: {text}{figures}")

    def _waits(self, need: Need) -> Why:
        state = self.state
        if state.status is SchedulingStatus.NOMINATED:
            return self._nominated()
        if state.reason == Reason.ATTEMPTS_EXHAUSTED:
            return self._say(Reason.ATTEMPTS_EXHAUSTED, self._failed_attempts())
        if state.stopping:
            text = f"its gang was too small; the {plural(len(state.stopping), 'task')} left stop"
            return self._say(Reason.PENDING_EVALUATION, text)
        if state.job.jid in self.order.admission.waiting:
            return self._at_the_door()
        if state.reason == Reason.REPEATED_CONFLICT:
            refused_text = (
                f"the ledger refused what was placed for it {plural(state.attempts, 'time')}"
            )
            return self._tried(Reason.REPEATED_CONFLICT, f"{refused_text}; it is tried again", need)
        if state.status is not SchedulingStatus.OPEN:
            return self._held_back(need)
        if state.job.jid in self.order.contention.out:
            # Whatever held it back before a shard began to look for victims still does.
            with uncharged(self.order.accounts, state):
                return self._held_back(need)
        last = self._last()
        return (last and self._after_try(last, need)) or self._turn()

    def _held_back(self, need: Need) -> Why:
        """The answer for a job that room, quota or its last turn may hold back. Its own charge must
        not be in the totals."""
        state, last = self.state, self._last()
        last_why = None if last is None else self._after_try(last, need)
        queue, needed = self._queue(), amounts(need, self.classes)
        last_reason = None if last_why is None else last_why.reason
        holder = held_by(self.core, queue, need, needed, reason=state.reason, last=last_reason)
        match holder:
            case HeldBy.LAST_TURN:
                assert last_why is not None
                return last_why
            case HeldBy.ROOM:
                return self._amounts(Reason.NOT_ENOUGH_RESOURCES, self._short(need), need)
            case HeldBy.QUOTA:
                return self._quota(need)
            case None:
                pass
        if state.reason == HoldReason.BIND_FAILED:
            text = f"the cluster refused {plural(state.refusals, 'bind')} of its tasks{self._who()}"
            return self._say(Reason.PENDING_EVALUATION, f"{text}; it is placed again in a moment")
        return self._turn()

    def raised(self, error: PluginError) -> Why:
        """The answer for a job about which a plugin from outside raises."""
        return self._say(Reason.PLUGIN_ERROR, str(error))

    # --- parts ----------------------------------------------------------------------------------

    def _need(self) -> Need:
        state = self.state
        need = state.need
        return need or core_need(state, self.classes, list(state.job.roles))

    def _queue(self) -> QueueInfo:
        return self.order.accounts.queue(self.state)

    def _last(self) -> LastTurn | None:
        """The result of the job's last turn; where it had none, that of its line's first job."""
        state = self.state
        if state.last is not None or not isinstance(state.line, Line):
            return state.last
        first = self.order.lines.first_of(state.line)
        return None if first is None else first.last

    def _after_try(self, last: LastTurn, need: Need) -> Why | None:
        if not last.reasons or last.code not in _LOOKED:
            return None
        if (skip := skip_of(last.reasons)) is not None:
            return self._tried(skip[0], skip[1], need)
        reason, tasks = placeless(last.reasons), tasks_of(last.failed_role, self.state.job.name)
        counts = told_counts(last.reasons)
        if reason is Reason.NO_MATCHING_NODES:
            return self._tried(reason, no_node_takes(tasks, last.reasons), need)
        if reason is Reason.FRAGMENTED:
            needed, could, short = balance(self.core, need)
            text = f"{listed(needed, self.names)} are free in total, but not where {tasks} fit"
            if short:
                text += f" (there are {listed(could, self.names)} on the nodes that they may use)"
            return self._tried(reason, f"{text}: {counts}", need)
        return self._tried(reason, counts, need)

    def _nominated(self) -> Why:
        state = self.state
        rows = sorted(state.waits_for or set(state.nominated.values()))
        nodes = some([self.core.names.get(row, f"row {row}") for row in rows])
        text = f"{plural(len(state.nominated), 'task')} hold room on {nodes}"
        text += ", until the tasks that leave there are gone"
        if overdue := self.core.victims.overdue.on(rows):
            text += f"; {overdue[0].sentence}"
            if len(overdue) > 1:
                text += f" (and {plural(len(overdue) - 1, 'other')} like it)"
        return self._say(Reason.WAITING_FOR_VICTIMS, text)

    def _failed_attempts(self) -> str:
        """The failed attempts of a parked job, as a sentence."""
        state = self.state
        tried = [
            f"{plural(state.refusals, 'bind')} refused by the cluster{self._who()}",
            f"{plural(state.conflicts, 'turn')} refused by the ledger or lost with a worker",
        ]
        counts = (state.refusals, state.conflicts)
        parts = [text for text, count in zip(tried, counts, strict=True) if count]
        return (
            f"every attempt to place it failed: {', '.join(parts)}; it is tried again when it is "
            "changed, when capacity is freed, twice a minute at most, or else after five minutes"
        )

    def _who(self) -> str:
        return f", the last by {self.state.refused_by}" if self.state.refused_by else ""

    def _quota(self, need: Need) -> Why:
        needed = amounts(need, self.classes)
        wait = quota_wait(self.core, self._queue(), needed, self.names)
        return replace(wait, message=cut(wait.message), generation=self.state.job.spec)

    def _short(self, need: Need) -> str:
        needed, could, short = balance(self.core, need)
        first = {slot: needed[slot] for slot in short}
        give = {slot: could[slot] for slot in short}
        gang = f"gang of {count} " if (count := sum(n for _, n in need)) > 1 else ""
        closed = closed_idle(self.core, (self.classes[cid] for cid, _ in need))
        whose = "the nodes that it may use" if closed.keys() & short.keys() else "the cluster"
        return (
            f"{gang}asks {listed(first, self.names)}, {whose} could give "
            f"{listed(give, self.names)}; short by {listed(short, self.names)}"
        )

    def _turn(self) -> Why:
        ahead = self.order.lines.queues[self.state.info.qid].waiting - 1
        if self.state.status is SchedulingStatus.OPEN:
            return self._say(Reason.PENDING_EVALUATION, "a shard is placing it now")
        if self.order.session.overused(self._queue(), self.order.accounts.cluster):
            return self._quota(self._need())
        if ahead <= 0:
            return self._say(Reason.PENDING_EVALUATION, "not looked at yet; its turn is next")
        queue = self.state.job.queue
        text = f"{plural(ahead, 'other job')} wait in queue {queue}; it has had no turn yet"
        return self._say(Reason.WAITING_FOR_TURN, text)

    # --- told -----------------------------------------------------------------------------------

    def _amounts(
        self, reason: Reason, text: str, need: Need, *, bound: QueueBound | None = None
    ) -> Why:
        needed, could, short = balance(self.core, need)
        return self._say(reason, text, requested=needed, available=could, short=short, bound=bound)

    def _tried(self, reason: Reason, text: str, need: Need) -> Why:
        """A reason found by a worker's session, with its shard and time."""
        last = self._last()
        needed, could, short = balance(self.core, need)
        if last is None:
            return self._say(reason, text, requested=needed, available=could, short=short)
        return Why(
            reason=reason,
            message=cut(text),
            evaluated_at=last.at,
            shard=last.shard,
            session=last.session,
            epoch=last.epoch,
            generation=self.state.job.spec,
            requested=needed,
            available=could,
            short=short,
        )

    def _say(
        self,
        reason: Reason,
        text: str,
        *,
        requested: Mapping[int, float] | None = None,
        available: Mapping[int, float] | None = None,
        short: Mapping[int, float] | None = None,
        bound: QueueBound | None = None,
    ) -> Why:
        return Why(
            reason=reason,
            message=cut(text),
            generation=self.state.job.spec,
            requested=requested or {},
            available=available or {},
            short=short or {},
            bound=bound,
        )
