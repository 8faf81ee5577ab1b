"""Why a job waits, in one word of a closed list and one sentence with amounts.

All of it follows from what the coordinator holds anyway (where the job stands, what its last turn
came back with, totals of cluster and queue), so that it costs microseconds and asks nobody. What
only a look at every node can tell is added by :mod:`coordinator.explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core import Coordinator
from coordinator.jobs import JobState, LastTry, Need, Standing, amounts, core_need, gated
from coordinator.lines import Line, QueueState
from coordinator.reason_facts import (
    balance,
    counted,
    entry_figures,
    held,
    limits_of,
    never,
    upwards,
    within_capability,
)
from coordinator.reason_words import (
    INSUFFICIENT,
    NEVER,
    Reason,
    Why,
    cut,
    of_counts,
    skip_of,
    told_counts,
    word,
)
from coordinator.wording import listed, name_of, plural, quantity, some
from shard_worker.actions.enqueue import refusal
from shard_worker.task_class import PARTLY
from shard_worker.workload import QueueInfo
from shared.messages import OutcomeCode
from shared.slots import BASE

__all__ = [
    "NEVER",
    "Reason",
    "Why",
    "held",
    "line_reason",
    "never",
    "of_counts",
    "told_counts",
    "upwards",
    "why",
    "word",
]


_LOOKED = frozenset({OutcomeCode.INFEASIBLE, OutcomeCode.PLACED})
"""Outcomes whose reasons count nodes: of a conflict they count refusals."""


def why(core: Coordinator, state: JobState, *, names: Sequence[str] = BASE) -> Why | None:
    """None where nothing of the job waits. ``names``: the resource of each slot."""
    if state.standing in (Standing.DONE, Standing.SETTLED):
        return None
    return _Judge(core, state, names).judge()


def kept_out_by(
    core: Coordinator, queue: QueueInfo, line: Line, names: Sequence[str] = BASE
) -> Reason | None:
    """What keeps every job of a line out until somebody changes something; it goes before all that
    time may mend. None: nothing."""
    found = never(core, queue, line.need, classes=core.order.accounts.classes, names=names)
    if found is not None:
        return found[0]
    return None if queue.queue.open else Reason.QUEUE_CLOSED


def line_reason(
    core: Coordinator, queue: QueueInfo, line: Line, names: Sequence[str] = BASE
) -> Reason:
    """The word for every job of a line that is held back, as :func:`why` has it for each."""
    order = core.order
    found = kept_out_by(core, queue, line, names)
    if found is not None:
        return found
    first = order.jobs.get(line.heap[0][2]) if line.heap else None
    last = None if first is None else first.last
    looked = last is not None and bool(last.reasons) and last.code in _LOOKED
    told = placeless(last.reasons) if last is not None and looked else None
    if told is not None and told.rank < Reason.WAITING_FOR_QUOTA.rank:
        return told
    if not order.accounts.capacity.covers(line.amounts):
        within = within_capability(core, queue, line.amounts)
        return Reason.NOT_ENOUGH_RESOURCES if within else Reason.WAITING_FOR_QUOTA
    return told or Reason.NOT_ENOUGH_RESOURCES


def untried(core: Coordinator, queue: QueueState) -> Reason:
    """The word for a queue's jobs that nothing is known against: as :func:`why` has it."""
    if core.order.session.overused(queue.info, core.order.accounts.cluster):
        return Reason.WAITING_FOR_QUOTA
    waiting = sum(line.reasons.total() for line in queue.lines.values())
    return Reason.WAITING_FOR_TURN if waiting > 1 else Reason.PENDING_EVALUATION


def placeless(counts: Mapping[str, int]) -> Reason:
    """The word where the total suffices, but a session found no place."""
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
        """The first that holds, in the order of the list."""
        state, job = self.state, self.state.job
        if state.info.qid < 0:
            fix = f"create queue {job.queue}, or name another in the job"
            return self._say(Reason.MISCONFIGURED, f"queue {job.queue} does not exist; {fix}")
        if job.dangling:
            return self._say(
                Reason.MISCONFIGURED,
                f"its pods name PodGroup {job.key}, which does not exist; create it",
            )
        if not state.info.pending:
            return self._best_effort()
        need = self._need()
        if not need:
            return self._gated()
        found = never(self.core, self._queue(), need, classes=self.classes, names=self.names)
        if found is not None:
            return self._amounts(found[0], found[1], need)
        if not self._queue().queue.open:
            return self._say(Reason.QUEUE_CLOSED, f"queue {job.queue} is closed; open it")
        missing = self.order.session.job_valid(state.info, self.order.accounts.cluster)
        if missing is not None:
            return self._say(Reason.NOT_ENOUGH_TASKS, missing.partition(": ")[2] or missing)
        return self._waits(need)

    def _best_effort(self) -> Why | None:
        """Of a job of which only tasks that ask for nothing are left."""
        state, count = self.state, sum(self.state.info.best_effort[:1])
        if not count:
            return None
        tasks = f"{plural(count, 'task')} ask for no resource"
        if not self.order.fills:
            text = f"{tasks}, and the policy has no action backfill, which places such tasks"
            return self._say(Reason.GATED, f"{text}; add it, or give them a request: cpu: 1m")
        if not self._queue().queue.open:
            return self._say(Reason.QUEUE_CLOSED, f"queue {state.job.queue} is closed; open it")
        missing = self.order.session.job_valid(state.info, self.order.accounts.cluster)
        if missing is not None:
            return self._say(Reason.NOT_ENOUGH_TASKS, missing.partition(": ")[2] or missing)
        if state.job.jid in self.order.entry.waiting:
            return self._at_the_door()
        if state.last is not None and (found := self._after_try(state.last, ())) is not None:
            return found
        return self._say(Reason.PENDING_EVALUATION, f"{tasks}: backfill places them")

    def _gated(self) -> Why:
        """Nothing is left of it that may be tried."""
        roles = [role for role in self.state.job.roles if gated(role)]
        count = sum(len(self.state.pending(role, role.count)) or role.count for role in roles)
        text = f"{plural(count, 'task')} have scheduling gates; they wait until whoever set those "
        return self._say(Reason.GATED, f"{text}takes them away")

    def _at_the_door(self) -> Why:
        """Not let in by enqueue."""
        told = self.order.entry.why.get(self.state.job.jid)
        if told is None:
            return self._say(Reason.PENDING_EVALUATION, "enqueue has not judged it yet")
        _, text = refusal(self.order.session, self.order.accounts.cluster, self.state.info)
        figures = entry_figures(self.core, self._queue(), self.state.info, self.names)
        return self._say(word(told), f"not let in by enqueue: {text}{figures}")

    def _waits(self, need: Need) -> Why:
        state = self.state
        if state.standing is Standing.NOMINATED:
            return self._nominated()
        if state.reason == Reason.ATTEMPTS_EXHAUSTED:
            return self._say(Reason.ATTEMPTS_EXHAUSTED, self._in_vain())
        if state.stopping:
            text = f"its gang was too small; the {plural(len(state.stopping), 'task')} left stop"
            return self._say(Reason.PENDING_EVALUATION, text)
        if state.job.jid in self.order.entry.waiting:
            return self._at_the_door()
        if state.reason == Reason.REPEATED_CONFLICT:
            told = f"the ledger refused what was placed for it {plural(state.attempts, 'time')}"
            return self._tried(Reason.REPEATED_CONFLICT, f"{told}; it is tried again", need)
        if state.standing is Standing.OPEN:  # charged: totals count it as if it were placed
            last = self._last()
            return (last and self._after_try(last, need)) or self._turn()
        last = self._last()
        found = None if last is None else self._after_try(last, need)
        if found is not None and found.reason.rank < Reason.WAITING_FOR_QUOTA.rank:
            return found  # no room that is made, and no quota, would help
        capacity = self.order.accounts.capacity
        if not capacity.covers(amounts(need, self.classes)):
            if not within_capability(self.core, self._queue(), amounts(need, self.classes)):
                return self._quota(need)
            return self._amounts(Reason.NOT_ENOUGH_RESOURCES, self._short(need), need)
        if state.reason == Reason.WAITING_FOR_QUOTA or not self._within_quota(need):
            return self._quota(need)
        if found is not None:
            return found
        if state.reason == "BindFailed":
            text = f"the cluster refused {plural(state.refusals, 'bind')} of its tasks{self._who()}"
            return self._say(Reason.PENDING_EVALUATION, f"{text}; it is placed again in a moment")
        return self._turn()

    # --- parts ----------------------------------------------------------------------------------

    def _need(self) -> Need:
        state = self.state
        known = state.need
        return known or core_need(state, self.classes, list(state.job.roles))

    def _queue(self) -> QueueInfo:
        return self.order.accounts.queue(self.state)

    def _last(self) -> LastTry | None:
        """What its own last turn came back with, or that of the first of its line."""
        state = self.state
        if state.last is not None or not isinstance(state.line, Line):
            return state.last
        head = state.line.heap[0][2] if state.line.heap else -1
        first = self.order.jobs.get(head)
        held = state.line.infeasible_at >= 0
        return first.last if held and first is not None else None

    def _after_try(self, last: LastTry, need: Need) -> Why | None:
        if not last.reasons or last.code not in _LOOKED:
            return None
        if (skip := skip_of(last.reasons)) is not None:
            return self._tried(skip[0], skip[1], need)
        reason = placeless(last.reasons)
        counts = told_counts(last.reasons)
        if reason is Reason.NO_MATCHING_NODES:
            return self._tried(reason, f"no node takes {self._tasks(last)}: {counts}", need)
        if reason is Reason.FRAGMENTED:
            asked = listed(counted(amounts(need, self.classes)), self.names)
            text = f"{asked} are free in total, but not where {self._tasks(last)} fit: {counts}"
            return self._tried(reason, text, need)
        return self._tried(reason, counts, need)

    def _tasks(self, last: LastTry) -> str:
        role = f"role {last.failed_role}" if last.failed_role else "its tasks"
        return f"{role} of {self.state.job.name}" if last.failed_role else role

    def _nominated(self) -> Why:
        state = self.state
        rows = sorted(state.waits_for or set(state.nominated.values()))
        nodes = some([self.core.names.get(row, f"row {row}") for row in rows])
        text = f"{plural(len(state.nominated), 'task')} hold room on {nodes}"
        return self._say(
            Reason.WAITING_FOR_VICTIMS, f"{text}, until the tasks that leave there are gone"
        )

    def _within_quota(self, need: Need) -> bool:
        return self.order.picking.allowed(self._queue(), need)

    def _in_vain(self) -> str:
        """What a parked job went through."""
        state = self.state
        tried = [
            f"{plural(state.refusals, 'bind')} refused by the cluster{self._who()}",
            f"{plural(state.conflicts, 'turn')} refused by the ledger or lost with a worker",
        ]
        counts = (state.refusals, state.conflicts)
        told = [text for text, count in zip(tried, counts, strict=True) if count]
        return (
            f"placed again and again in vain: {', '.join(told)}; it is tried again when it is "
            "changed, or at times when room was freed"
        )

    def _who(self) -> str:
        return f", the last by {self.state.refused_by}" if self.state.refused_by else ""

    def _quota(self, need: Need) -> Why:
        """Told with the first amount that goes beyond the queue's share or capability."""
        queue = self._queue()
        asked = amounts(need, self.classes)
        limits = limits_of(self.core, queue)
        over = {
            slot: amount - max(0.0, limits[slot] - queue.allocated.get(slot, 0))
            for slot, amount in asked.items()
            if slot in limits and queue.allocated.get(slot, 0) + amount > limits[slot]
        }
        available = {slot: max(0.0, limits[slot] - queue.allocated.get(slot, 0)) for slot in over}
        name = queue.queue.name
        if not over:
            text = f"queue {name} has its share; more when others leave theirs"
            return self._say(Reason.WAITING_FOR_QUOTA, text)
        slot = next(iter(over))
        resource = name_of(slot, self.names)
        used = quantity(resource, queue.allocated.get(slot, 0))
        text = (
            f"queue {name} uses {used} of the {quantity(resource, limits[slot])} {resource} it may "
            f"have, the job asks {quantity(resource, asked[slot])}"
        )
        return self._say(
            Reason.WAITING_FOR_QUOTA,
            f"{text}; short by {listed(over, self.names)}",
            requested={slot: asked[slot] for slot in over},
            available=available,
            short=over,
        )

    def _short(self, need: Need) -> str:
        asked, could, short = balance(self.core, need)
        first = {slot: asked[slot] for slot in short}
        give = {slot: could[slot] for slot in short}
        gang = f"gang of {count} " if (count := sum(n for _, n in need)) > 1 else ""
        return (
            f"{gang}asks {listed(first, self.names)}, the cluster could give "
            f"{listed(give, self.names)}; short by {listed(short, self.names)}"
        )

    def _turn(self) -> Why:
        lines = self.order.lines.queues[self.state.info.qid].lines.values()
        ahead = sum(line.reasons.total() for line in lines) - 1
        if self.state.standing is Standing.OPEN:
            return self._say(Reason.PENDING_EVALUATION, "a shard is placing it now")
        if self.order.session.overused(self._queue(), self.order.accounts.cluster):
            return self._quota(self._need())
        if ahead <= 0:
            return self._say(Reason.PENDING_EVALUATION, "not looked at yet; its turn is next")
        queue = self.state.job.queue
        text = f"{plural(ahead, 'other job')} wait in queue {queue}; it has had no turn yet"
        return self._say(Reason.WAITING_FOR_TURN, text)

    # --- told -----------------------------------------------------------------------------------

    def _amounts(self, reason: Reason, text: str, need: Need) -> Why:
        asked, could, short = balance(self.core, need)
        return self._say(reason, text, requested=asked, available=could, short=short)

    def _tried(self, reason: Reason, text: str, need: Need) -> Why:
        """Found by a session: whose, and when."""
        last = self._last()
        asked, could, short = balance(self.core, need)
        if last is None:
            return self._say(reason, text, requested=asked, available=could, short=short)
        return Why(
            reason=reason,
            message=cut(text),
            evaluated_at=last.at,
            shard=last.shard,
            session=last.session,
            epoch=last.epoch,
            generation=self.state.job.spec,
            requested=asked,
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
    ) -> Why:
        return Why(
            reason=reason,
            message=cut(text),
            generation=self.state.job.spec,
            requested=requested or {},
            available=available or {},
            short=short or {},
        )
