"""Plan: what would come of a list of objects, on the live state and without side effects.

The list is judged as intake would judge it, with nothing kept. Each job that could have a turn is
placed by a worker on its view, each on top of those before it, and everything is undone. A plan is
what is feasible at one revision, and no reservation: others may be faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from coordinator.core import Coordinator
from coordinator.drafts import best_shards, draft_turn, planned_turn
from coordinator.inquiries import Inquiries, NoAnswer
from coordinator.intake import Admission, Intake
from coordinator.jobs import JobState, amounts, open_job
from coordinator.kube.problems import Problem
from coordinator.plan_report import report
from coordinator.reason_facts import entry_figures
from coordinator.reasons import NEVER, Reason, Why, held, never, upwards
from coordinator.verdict import can_ever, from_funnel, from_session, larger_than_shards
from coordinator.wording import listed, name_of, quantity
from shard_worker.actions.enqueue import enqueueable, refusal
from shard_worker.findings import Finding
from shard_worker.inquiry import Inquiry
from shard_worker.queue_totals import waits_for_entry
from shard_worker.workload import Amounts, JobInfo, QueueInfo
from shared.ledger.protocol import PutObject
from shared.messages import OutcomeCode, Turn
from shared.model import Job, TaskClass
from shared.slots import Slots
from shared.specs import SLOTS_KEY, decode_slots, encode_class

JOBS = 200
"""Jobs of one plan: bounds how long it keeps a worker from its turns."""


TOO_MANY = "the shard had no time for so many jobs; plan fewer at once"


class Verdict(StrEnum):
    NOW = "now"  # its gang has room on idle nodes
    LATER = "later"  # it would be nominated: tasks that are leaving make room
    WAITS = "waits"  # not now; what runs has to end, or somebody has to do something
    NEVER = "never"  # nothing that ends makes room for it


_ORDER = tuple(Verdict)


@dataclass(slots=True)
class Planned:
    """One job of the list, and what would come of it."""

    job: Job
    known: bool
    """It exists already and would be changed."""
    verdict: Verdict = Verdict.WAITS
    why: Why | None = None
    finding: Finding | None = None
    shard: int = -1
    silent: str = ""
    """Why no worker was asked, where one should have been."""


@dataclass(slots=True)
class Plan:
    """``revision``: the ledger's log, up to where the workers that were asked had read it."""

    admission: Admission
    names: list[str]
    jobs: list[Planned] = field(default_factory=list)
    revision: str = ""


@dataclass(slots=True)
class _Asked:
    """A job whose turn goes to a worker."""

    planned: Planned
    turn: Turn
    wanted: dict[int, int]


class Planner:
    def __init__(
        self,
        core: Coordinator,
        inquiries: Inquiries,
        intake: Intake,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._core = core
        self._inquiries = inquiries
        self._intake = intake
        self._clock = clock

    async def plan(self, items: Sequence[object]) -> dict[str, Any]:
        """The answer as JSON. Raises Problem (413, 429)."""
        with self._inquiries.turnstile():
            admission = self._intake.admit(items, self._clock(), keep=False)
            if len(admission.jobs) > JOBS:
                raise Problem(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "RequestEntityTooLarge",
                    f"{len(admission.jobs)} jobs; a plan looks at {JOBS} at most, send fewer",
                )
            drawn = _Drawing(self._core, self._intake, admission)
            asked = drawn.draw()
            if asked:
                await self._ask(drawn, asked)
            return report(self._core, drawn.plan, total=len(items))

    # --- workers --------------------------------------------------------------------------------

    async def _ask(self, drawn: _Drawing, asked: list[_Asked]) -> None:
        try:
            if self._core.order.walls:
                await self._behind_walls(drawn, asked)
            else:
                await self._anywhere(drawn, asked)
        except NoAnswer as error:
            for one in asked:
                if one.planned.finding is None:
                    one.planned.silent = str(error)
                    text = f"no shard answered ({error}); plan again in a moment"
                    one.planned.why = Why(Reason.PENDING_EVALUATION, text)

    async def _anywhere(self, drawn: _Drawing, asked: list[_Asked]) -> None:
        """Every worker sees every node: one of them places all."""
        need: Amounts = {}
        for one in asked:
            for slot, amount in amounts(tuple(one.wanted.items()), drawn.classes).items():
                need[slot] = need.get(slot, 0) + amount
        shards = best_shards(self._core, need)
        shard, answer = await self._inquiries.ask_any(shards, drawn.inquiry(asked))
        drawn.plan.revision = answer.log_id
        for one, finding in zip(asked, answer.findings, strict=False):
            drawn.take(one, [(shard, finding)])
        for one in asked[len(answer.findings) :]:
            one.planned.why = Why(Reason.PENDING_EVALUATION, f"not looked at: {TOO_MANY}")

    async def _behind_walls(self, drawn: _Drawing, asked: list[_Asked]) -> None:
        """Each worker sees its own nodes only: the first that has room for a job gets it, on top of
        those it got before."""
        given: dict[int, list[_Asked]] = {}
        for one in asked:
            found: list[tuple[int, Finding]] = []
            for shard in best_shards(self._core, amounts(tuple(one.wanted.items()), drawn.classes)):
                before = given.setdefault(shard, [])
                answer = await self._inquiries.ask(shard, drawn.inquiry([*before, one]))
                drawn.plan.revision = answer.log_id
                if len(answer.findings) <= len(before):
                    one.planned.why = Why(Reason.PENDING_EVALUATION, f"not looked at: {TOO_MANY}")
                    continue
                found.append((shard, answer.findings[-1]))
                if answer.findings[-1].code is OutcomeCode.PLACED:
                    before.append(one)
                    break
            if found:
                drawn.take(one, found)


class _Drawing:
    """One plan being made."""

    def __init__(self, core: Coordinator, intake: Intake, admission: Admission) -> None:
        self._core = core
        known = intake.registry.slots
        names = _names(known, admission)
        self.plan = Plan(admission, names)
        published = core.order.accounts.classes
        coming = intake.registry.classes.items()
        self._fresh = {cid: cls for cls, cid in coming if cid not in published} | admission.classes
        """Classes that no worker knows: of this plan, and of what is being stored right now."""
        self.classes: dict[int, TaskClass] = published | self._fresh
        slots = Slots(names)
        self._implied = {
            slot: amount
            for slot in range(len(known), len(slots))
            if (amount := slots.implied(slot))
        }
        self._queues = {queue.name: QueueInfo(queue=queue) for queue in admission.queues}
        self._charged: dict[int, Amounts] = {}
        """Queue -> what jobs of this plan would take of it."""

    def draw(self) -> list[_Asked]:
        """Note every job; the ones whose turn a worker has to try."""
        asked: list[_Asked] = []
        jobs = self.plan.admission.jobs
        for job in sorted(jobs, key=lambda job: (-job.priority, job.created, job.jid)):
            planned = Planned(job, known=job.jid in self._core.order.jobs)
            self.plan.jobs.append(planned)
            one = self._judge(planned)
            if one is not None:
                asked.append(one)
        return asked

    def _queue(self, name: str) -> QueueInfo | None:
        """As the list would make it, with what its jobs hold now."""
        qid = self._core.order.queue_ids.get(name)
        live = None if qid is None else self._core.order.lines.queues[qid].info
        fresh = self._queues.get(name)
        if fresh is None or live is None:
            return fresh or live
        return replace(live, queue=fresh.queue)

    def _judge(self, planned: Planned) -> _Asked | None:
        """What can be told without a worker; else what to ask one."""
        job, queue = planned.job, self._queue(planned.job.queue)
        if queue is None:
            text = f"queue {job.queue} does not exist; create it, or name another in the job"
            planned.why = Why(Reason.MISCONFIGURED, text)
            return None
        if job.dangling:
            text = f"its pods name PodGroup {job.key}, which does not exist; create it"
            planned.why = Why(Reason.MISCONFIGURED, text)
            return None
        state = self._state(job, queue)
        if not state.info.pending and not any(state.info.best_effort):
            planned.verdict = Verdict.NOW
            return None
        if not state.info.pending and not self._core.order.fills:
            text = "its tasks ask for no resource, and the policy has no action backfill"
            planned.why = Why(Reason.GATED, f"{text}; add it, or give them a request")
            return None
        turn, wanted = draft_turn(self._core, state, self.classes, whole=True)
        found = never(
            self._core, queue, tuple(wanted.items()), classes=self.classes, names=self.plan.names
        )
        if found is not None:
            planned.verdict, planned.why = Verdict.NEVER, Why(*found)
            return None
        planned.why = self._obstacle(queue, state.info, wanted)
        if planned.why is not None:
            return None
        if queue.queue.qid in self._core.order.lines.queues:  # a session asks about it, too
            turn = planned_turn(self._core, state, turn, self.classes)
        return _Asked(planned, turn, wanted)

    def _obstacle(self, queue: QueueInfo, info: JobInfo, wanted: dict[int, int]) -> Why | None:
        """Why the job would get no turn now."""
        if not queue.queue.open:
            text = f"queue {queue.queue.name} is closed; open it"
            return Why(Reason.QUEUE_CLOSED, text)
        missing = self._core.order.session.job_valid(info, self._core.order.accounts.cluster)
        if missing is not None:
            return Why(Reason.NOT_ENOUGH_TASKS, missing.partition(": ")[2] or missing)
        order, cluster = self._core.order, self._core.order.accounts.cluster
        gate = order.entry.on and waits_for_entry(info.phase) and info.qid in cluster.queues
        if gate and not enqueueable(order.session, cluster, info):
            word, text = refusal(order.session, cluster, info)
            text += entry_figures(self._core, queue, info, self.plan.names)
            return Why(Reason(word), f"not let in by enqueue: {text}")
        return self._over(queue, amounts(tuple(wanted.items()), self.classes))

    def _state(self, job: Job, queue: QueueInfo) -> JobState:
        known = self._core.order.jobs.get(job.jid)
        states = None if known is None else bytearray(known.states)
        state = open_job(job, qid=queue.queue.qid, classes=self.classes, states=states)
        if known is not None:
            state.nominated = dict(known.nominated)
        return state

    def _over(self, queue: QueueInfo, asked: Amounts) -> Why | None:
        """Why the queue may not take it now, jobs of this plan counted; else it is charged."""
        for above in upwards(self._core, queue):
            qid = above.queue.qid
            charged = self._charged.get(qid, {})
            for slot, limit in above.queue.capability or ():
                used = self._held(above, slot) + charged.get(slot, 0)
                if slot in asked and used + asked[slot] > limit:
                    return self._quota(above, slot, used=used, limit=limit, asked=asked[slot])
        for above in upwards(self._core, queue):
            charged = self._charged.setdefault(above.queue.qid, {})
            for slot, amount in asked.items():
                charged[slot] = charged.get(slot, 0) + amount
        return None

    def _held(self, queue: QueueInfo, slot: int) -> int:
        live = self._core.order.lines.queues.get(queue.queue.qid)
        return 0 if live is None else held(self._core, live.info, slot)

    def _quota(self, queue: QueueInfo, slot: int, *, used: int, limit: int, asked: int) -> Why:
        names = self.plan.names
        resource = name_of(slot, names)
        short = {slot: used + asked - limit}
        return Why(
            Reason.WAITING_FOR_QUOTA,
            f"queue {queue.queue.name} would use {quantity(resource, used)} of the "
            f"{quantity(resource, limit)} {resource} it may have, the job asks "
            f"{quantity(resource, asked)}; short by {listed(short, names)}",
            requested={slot: asked},
            available={slot: max(0, limit - used)},
            short=short,
        )

    # --- what workers say -------------------------------------------------------------------------

    def inquiry(self, asked: list[_Asked]) -> Inquiry:
        used = {run.cid for one in asked for run in one.turn.runs}
        return Inquiry(
            turns=[one.turn for one in asked],
            wanted=[one.wanted for one in asked],
            classes={cid: encode_class(cls) for cid, cls in self._fresh.items() if cid in used},
            implied=self._implied,
        )

    def take(self, one: _Asked, found: list[tuple[int, Finding]]) -> None:
        """Turn what one shard found, or several, into a verdict: the best of them counts."""
        judged = [(*self._verdict(finding), shard, finding) for shard, finding in found]
        verdict, why, shard, finding = min(judged, key=lambda told: _ORDER.index(told[0]))
        apart = larger_than_shards([finding for _, finding in found])
        if verdict is Verdict.NEVER and apart:
            why = Why(Reason.LARGER_THAN_SHARD, apart)
        planned = one.planned
        planned.verdict, planned.why, planned.shard, planned.finding = verdict, why, shard, finding

    def _verdict(self, finding: Finding) -> tuple[Verdict, Why | None]:
        match finding.code:
            case OutcomeCode.PLACED:
                return Verdict.NOW, None
            case OutcomeCode.NOMINATED:
                return Verdict.LATER, None
            case OutcomeCode.INFEASIBLE if finding.funnels:
                hopeless = [told for told in finding.funnels if not can_ever(told)]
                worst = (hopeless or finding.funnels)[0]
                why = from_funnel(worst, self.classes[worst.cid].requests, self.plan.names)
                if not hopeless:
                    why = from_session(finding, worst) or why
                return Verdict.NEVER if hopeless or why.reason in NEVER else Verdict.WAITS, why
            case _:
                text = "the shard has not heard of it yet; plan again in a moment"
                return Verdict.WAITS, Why(Reason.PENDING_EVALUATION, text)


def _names(known: Slots, admission: Admission) -> list[str]:
    """Slot names, those of the list included."""
    for op in admission.ops:
        if isinstance(op, PutObject) and op.key == SLOTS_KEY and op.spec is not None:
            return list(decode_slots(op.spec).names)
    return list(known.names)
