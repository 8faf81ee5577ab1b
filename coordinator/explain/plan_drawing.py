"""A plan in progress: judges each job of the list, and takes what workers say of its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.facts import entry_figures, never
from coordinator.core.reasons.quota import bounded
from coordinator.core.reasons.reasons import placeless
from coordinator.explain.hypothetical_turns import draft_turn, planned_turn, session_turn
from coordinator.explain.plan import BEST_FIRST, Plan, Planned, PlanVerdict
from coordinator.explain.plan_order import FEW_JOBS, PlannedJob, hold, parted
from coordinator.explain.verdict import (
    ROOM,
    can_ever,
    from_funnel,
    from_session,
    larger_than_shards,
)
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from coordinator.jobs.capability import QueueBound, bound_of, held, upwards
from coordinator.jobs.pending_reasons import (
    PERMANENT,
    Why,
    cut,
    no_node_takes,
    of_invalid,
    tasks_of,
)
from coordinator.jobs.state import JobState, amounts, open_job
from shard_worker.dialects.volcano.actions.enqueue import enqueueable, refusal
from shard_worker.inquiry.findings import InquiryFinding, RoleFunnel
from shard_worker.inquiry.inquiry import Inquiry
from shard_worker.session_model.native_groups import named_group
from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.session_model.workload import Amounts, JobInfo, QueueInfo
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutObject
from shared.messages.messages import OutcomeCode, Turn
from shared.messages.reason import Reason
from shared.model.model import Job, TaskClass
from shared.records.specs import SLOTS_KEY, decode_slots, encode_class
from shared.slices import Steps
from shared.units.slots import Slots


@dataclass(slots=True)
class PlanCandidate:
    """A job whose turn is sent to a worker."""

    planned: Planned
    turn: Turn
    needed: dict[int, int]
    queue: QueueInfo


class PlanDrawing:
    """A plan in progress."""

    def __init__(self, core: Coordinator, intake: Intake, admission: Admission) -> None:
        self._core = core
        slots = intake.registry.slots
        names = _names(slots, admission)
        self.plan = Plan(admission, names)
        published = core.order.accounts.classes
        coming = intake.registry.classes.items()
        self._fresh = {cid: cls for cls, cid in coming if cid not in published} | admission.classes
        """Classes that no worker knows: of this plan, and of what is being stored right now."""
        self.classes: dict[int, TaskClass] = published | self._fresh
        self._queues = {queue.name: QueueInfo(queue=queue) for queue in admission.queues}
        self._charged: dict[int, Amounts] = {}
        """Queue -> what jobs of this plan would take of it."""

    def draw(self) -> Steps[list[PlanCandidate]]:
        """Note every job; returns those whose turn a worker has to try."""
        candidates: list[PlanCandidate] = []
        jobs = self.plan.admission.jobs
        for job in sorted(jobs, key=lambda job: (-job.priority, job.created, job.jid)):
            yield
            planned = Planned(job, exists=job.jid in self._core.order.jobs)
            self.plan.jobs.append(planned)
            candidate = self._judge(planned)
            if candidate is not None:
                candidates.append(candidate)
        return candidates

    def _queue(self, name: str) -> QueueInfo | None:
        """The queue as the list would make it, with its present usage."""
        qid = self._core.order.queue_ids.get(name)
        live = None if qid is None else self._core.order.lines.queues[qid].info
        fresh = self._queues.get(name)
        if fresh is None or live is None:
            return fresh or live
        return replace(live, queue=fresh.queue)

    def _judge(self, planned: Planned) -> PlanCandidate | None:
        """The result where no worker is needed; else the candidate to send to one."""
        job, queue = planned.job, self._queue(planned.job.queue)
        if queue is None:
            text = f"queue {job.queue} does not exist; create it, or name another in the job"
            planned.why = Why(Reason.MISCONFIGURED, text)
            return None
        if job.dangling:
            text = f"its pods name {named_group(job)}, which does not exist; create it"
            planned.why = Why(Reason.MISCONFIGURED, text)
            return None
        state = self.state(job, queue)
        if not state.info.pending and not any(state.info.best_effort):
            planned.verdict = PlanVerdict.NOW
            return None
        turn, needed = draft_turn(self._core, state, self.classes, whole=True)
        obstacle = never(
            self._core, queue, tuple(needed.items()), classes=self.classes, names=self.plan.names
        )
        if obstacle is not None:
            planned.verdict, planned.why = (
                PlanVerdict.NEVER,
                Why(obstacle.reason, obstacle.message, bound=obstacle.bound),
            )
            return None
        planned.why = self._obstacle(queue, state.info, needed)
        if planned.why is not None:
            return None
        if queue.queue.qid in self._core.order.lines.queues:  # a session asks about it, too
            turn = planned_turn(self._core, state, turn, self.classes)
        return PlanCandidate(planned, turn, needed, queue)

    def _obstacle(self, queue: QueueInfo, info: JobInfo, needed: dict[int, int]) -> Why | None:
        """Why the job would get no turn now."""
        if not queue.queue.open:
            text = f"queue {queue.queue.name} is closed; open it"
            return Why(Reason.QUEUE_CLOSED, text)
        missing = self._core.order.session.job_valid(info, self._core.order.accounts.cluster)
        if missing is not None:
            return Why(*of_invalid(missing))
        order, cluster = self._core.order, self._core.order.accounts.cluster
        gate = order.admission.on and waits_for_entry(info.phase) and info.qid in cluster.queues
        if gate and not enqueueable(order.session, cluster, info):
            word, text = refusal(order.session, cluster, info)
            text += entry_figures(self._core, queue, info, self.plan.names)
            return Why(word, f"not admitted by enqueue: {text}")
        if not order.walls:  # picked() counts what the jobs before it take
            return None
        return self._over(queue, amounts(tuple(needed.items()), self.classes))

    def state(self, job: Job, queue: QueueInfo) -> JobState:
        """The job's state as the list would make it: the plan's own copy."""
        existing = self._core.order.jobs.get(job.jid)
        states = None if existing is None else bytearray(existing.states)
        qid, fills = queue.queue.qid, self._core.order.fills
        state = open_job(job, qid=qid, classes=self.classes, states=states, backfilled=fills)
        if existing is not None:
            state.nominated = dict(existing.nominated)
        return state

    def _over(self, queue: QueueInfo, requested: Amounts) -> Why | None:
        """Why the queue does not admit it now, jobs of this plan included; None: it does, and is
        charged."""
        for above in upwards(self._core.order.lines.queues, queue):
            qid = above.queue.qid
            charged = self._charged.get(qid, {})
            for slot, limit in above.queue.capability or ():
                used = self._held(above, slot) + charged.get(slot, 0)
                if slot in requested and used + requested[slot] > limit:
                    names = self.plan.names
                    bound = bound_of(above, slot, limit, requested, names=names, has=used)
                    return self._quota(bound, queue.queue.name)
        for above in upwards(self._core.order.lines.queues, queue):
            charged = self._charged.setdefault(above.queue.qid, {})
            for slot, amount in requested.items():
                charged[slot] = charged.get(slot, 0) + amount
        return None

    def _held(self, queue: QueueInfo, slot: int) -> int:
        queues = self._core.order.lines.queues
        live = queues.get(queue.queue.qid)
        return 0 if live is None else held(queues, live.info, slot)

    def _quota(self, bound: QueueBound, leaf: str) -> Why:
        return bounded(bound, leaf, self.plan.names, uses="would use")

    # --- what workers say -------------------------------------------------------------------------

    def inquiry(self, candidates: list[PlanCandidate]) -> Inquiry:
        # Of all roles: a session needs the whole job, also what backfill places apart.
        used = {role.cid for candidate in candidates for role in candidate.planned.job.roles}
        return Inquiry(
            turns=[candidate.turn for candidate in candidates],
            needed=[candidate.needed for candidate in candidates],
            classes={cid: encode_class(cls) for cid, cls in self._fresh.items() if cid in used},
        )

    def take(self, candidate: PlanCandidate, answers: list[tuple[int, InquiryFinding]]) -> None:
        """Take the findings of one or several shards for a candidate: the best of them counts."""
        judged = [
            (*self._verdict(finding, candidate.planned.job), shard, finding)
            for shard, finding in answers
        ]
        verdict, why, shard, finding = min(judged, key=lambda entry: BEST_FIRST.index(entry[0]))
        apart = larger_than_shards([finding for _, finding in answers])
        if verdict is PlanVerdict.NEVER and apart:
            why = Why(Reason.LARGER_THAN_SHARD, apart)
        planned = candidate.planned
        planned.verdict, planned.why, planned.shard, planned.finding = verdict, why, shard, finding

    def parts(self, candidates: Sequence[PlanCandidate]) -> list[PlannedJob]:
        """The candidates with the turns that each would get, in a state of their own."""
        several = len(candidates) <= FEW_JOBS
        jobs: list[PlannedJob] = []
        for candidate in candidates:
            turns = parted(candidate.turn, tuple(candidate.needed.items()), several=several)
            turns += self._backfilled(candidate, turns)
            state = self.state(candidate.planned.job, candidate.queue)
            jobs.append(PlannedJob(state, candidate.queue, turns))
        return jobs

    def _backfilled(self, candidate: PlanCandidate, before: Sequence[Turn]) -> list[Turn]:
        """The turn for the members that ask for nothing, where others of the job have turns before:
        allocate leaves them to backfill."""
        state = self.state(candidate.planned.job, candidate.queue)
        if not (state.info.pending and any(state.info.best_effort)):
            return []
        if candidate.queue.queue.qid not in self._core.order.lines.queues:
            return []
        for turn in before:
            hold(state, turn.runs, self.classes)
        turn, _ = draft_turn(self._core, state, self.classes, whole=True)
        return [session_turn(self._core, state, turn, action="backfill")]

    def settle(self, candidates: Sequence[PlanCandidate]) -> None:
        """Tell a lack of room by the word that everybody else tells once the plan has happened:
        whether totals suffice, less what the jobs of the plan take."""
        capacity = self._core.order.accounts.capacity
        rows: Amounts = {}
        for candidate in candidates:
            finding = candidate.planned.finding
            for placement in finding.placements if finding is not None else ():
                requests = self.classes[placement.cid].requests
                for slot, amount in requests:
                    rows[slot] = rows.get(slot, 0) + amount * len(placement.tasks)
        for candidate in candidates:
            planned, needed = candidate.planned, tuple(candidate.needed.items())
            if planned.why is None or planned.why.reason not in ROOM or planned.finding is None:
                continue
            asked = amounts(needed, self.classes)
            total = {s: a + rows.get(s, 0) for s, a in asked.items()}
            covered = capacity.covers(total)
            reason = placeless(planned.finding.reasons) if covered else Reason.NOT_ENOUGH_RESOURCES
            if reason in ROOM:
                planned.why = replace(planned.why, reason=reason)

    def denied(self, candidate: PlanCandidate, queue: QueueInfo) -> Why | None:
        """Why the capability of a queue, or of one above it, does not admit a job now."""
        requests = amounts(tuple(candidate.needed.items()), self.classes)
        for info in (queue, *queue.above):
            for slot, limit in info.queue.capability or ():
                has = held(self._core.order.lines.queues, info, slot)
                if slot in requests and has + requests[slot] > limit:
                    names = self.plan.names
                    bound = bound_of(info, slot, limit, requests, names=names, has=has)
                    return self._quota(bound, queue.queue.name)
        return None

    def _verdict(self, finding: InquiryFinding, job: Job) -> tuple[PlanVerdict, Why | None]:
        match finding.code:
            case OutcomeCode.PLACED:
                return PlanVerdict.NOW, None
            case OutcomeCode.NOMINATED:
                return PlanVerdict.LATER, None
            case OutcomeCode.INFEASIBLE if finding.funnels:
                worst = _worst(finding.funnels)
                hopeless = not can_ever(worst)
                why = self._unplaced(finding, worst, job)
                return (
                    PlanVerdict.NEVER if hopeless or why.reason in PERMANENT else PlanVerdict.WAITS,
                    why,
                )
            case _:
                text = "the shard has not heard of it yet; plan again in a moment"
                return PlanVerdict.WAITS, Why(Reason.PENDING_EVALUATION, text)

    def _unplaced(self, finding: InquiryFinding, worst: RoleFunnel, job: Job) -> Why:
        """Why a job found no place, by its worst role."""
        reasons = finding.reasons
        # The reasons are those of the first role: the sentence is the one that an explanation has.
        if worst is finding.funnels[0] and placeless(reasons) is Reason.NO_MATCHING_NODES:
            text = no_node_takes(tasks_of(worst.role, job.name), reasons)
            return Why(Reason.NO_MATCHING_NODES, cut(text))
        why = from_funnel(worst, self.classes[worst.cid].requests, self.plan.names)
        if can_ever(worst):
            why = from_session(finding, worst) or why
        if len(job.roles) > 1:
            why = replace(why, message=f"role {worst.role}: {why.message}")
        return why


def _worst(funnels: list[RoleFunnel]) -> RoleFunnel:
    """The first role that no node can ever take, else the first of all."""
    return next((role for role in funnels if not can_ever(role)), funnels[0])


def _names(slots: Slots, admission: Admission) -> list[str]:
    """Slot names, those of the list included."""
    for op in admission.ops:
        if isinstance(op, PutObject) and op.key == SLOTS_KEY and op.spec is not None:
            return list(decode_slots(op.spec).names)
    return list(slots.names)
