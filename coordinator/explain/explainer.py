"""Explain: why one job waits, or where it is placed, in figures that add up.

The coordinator's facts (position, attempts, totals) are combined with a worker's evaluation of
every node for this job. If no worker answers, the stored facts are shown and marked as such.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.cluster.history.job_past import LATE_SECONDS, past_of_job
from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.inquiry_client import Inquiries
from coordinator.explain.advice import advice, next_step
from coordinator.explain.ended_job import ended_job, explain_ended
from coordinator.explain.estimate import attempts, estimate, gang, preemption_delay, quota, victims
from coordinator.explain.estimate_record import EstimateRecord
from coordinator.explain.job_story import minimum_of, story_of
from coordinator.explain.past_story import past_story
from coordinator.explain.probe import WorkerFindings, look, look_here
from coordinator.explain.queues.queue_position import holders, place_in_queue
from coordinator.explain.receipt.service_receipt import EarlierWaits, job_receipt
from coordinator.explain.subject import ExplainTarget, find_subject
from coordinator.explain.verdict import room
from coordinator.intake.admission.registry import Registry
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import BY_KIND
from coordinator.intake.principal import asker
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState, SchedulingStatus, deleted_members
from coordinator.objects.timeline import Happening, Stories, Story
from shard_worker.inquiry.findings import InquiryFinding, PlacementScores, RoleFunnel
from shard_worker.inquiry.funnel import Funnel
from shared.codec.packed import replace
from shared.messages.messages import HOLDING, UNSUCCESSFUL, Level, OutcomeCode, TaskState
from shared.slices import in_slices
from shared.units.amount_text import by_name, name_of, plural
from shared.units.quantity import quantity
from shared.units.times import rfc3339

API_VERSION = "quadrant.dev/v1alpha1"
PASTS = 256
"""Most stories that are kept of those read from the history."""
NODES = 20
"""Most nodes listed for a placed job."""

LEVEL_WORDS = {
    Level.IDLE_OWN: "idle, own shard",
    Level.IDLE_OTHER: "idle, another shard",
    Level.FUTURE_OWN: "will be idle, own shard",
    Level.FUTURE_OTHER: "will be idle, another shard",
}


class Explainer:
    def __init__(
        self,
        core: Coordinator,
        inquiries: Inquiries,
        registry: Callable[[], Registry],
        *,
        stories: Stories,
        events_of: Callable[[Key], Sequence[Happening]],
        reported: Callable[[int], object],
        history: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``events_of``: what the policies of a Job did. ``reported``: called with a job whose
        reason may have changed by an explanation. ``history``: the file that says what happened
        before this coordinator led, from now on."""
        self._core = core
        self._inquiries = inquiries
        self._registry = registry
        self._stories = stories
        self._events_of = events_of
        self._reported = reported
        self._clock = clock
        self._history = history
        self._since = clock()
        self._estimates = EstimateRecord(stories)
        self._pasts: dict[int, Story] = {}
        """Stories before :attr:`_since`, which do not change any more."""

    async def explain(
        self, kind: str, namespace: str, name: str, *, with_receipt: bool = False
    ) -> dict[str, Any]:
        """``kind``: Pod, PodGroup or Job. ``with_receipt``: also what the job waited for, which
        takes a walk over all jobs. Raises Problem (404, 429)."""
        registry = self._registry()
        if (document := ended_job(registry, kind, namespace, name)) is not None:
            answer = explain_ended(document, self._events_of(document.key), self._clock())
            return {"apiVersion": API_VERSION, "kind": "Explanation", **answer}
        subject = find_subject(self._core, registry, kind, namespace=namespace, name=name)
        with self._inquiries.turnstile(asker()):
            answer = await self._explain(kind, subject)
            state = self._core.order.known(subject.jid)
            if not with_receipt or state is None:  # deleted meanwhile, and its waits with it
                return answer
            return answer | {"receipt": await self._receipt(state)}

    async def _receipt(self, state: JobState) -> dict[str, Any]:
        before = None
        if state.job.created < self._since:
            past = await self._past(state)
            before = EarlierWaits(self._since, None if past is None else past.waits)
        names, now = self._registry().slots.names, self._clock()
        return await in_slices(
            job_receipt(self._core, self._stories, state, now, names, before=before)
        )

    # --- the answer -----------------------------------------------------------------------------

    async def _explain(self, kind: str, subject: ExplainTarget) -> dict[str, Any]:
        core, now = self._core, self._clock()
        names = self._registry().slots.names
        state = core.order.known(subject.jid)
        assert state is not None
        answer = self._head(kind, subject, state, now, past=await self._past(state))
        if subject.jid not in core.order.jobs:
            return answer | _leaving(state)
        reason = why(core, state, names=names)
        answer |= {"gang": gang(state), "quota": quota(core, state, names)}
        if reason is None:
            return answer | _no_reason(state) | await self._here(state, subject.tix)
        answer["victims"] = victims(state)
        if delay := preemption_delay(core, state, now):
            answer["delay"] = delay
        answer["eta"] = self._estimate(state, now)
        if subject.tix >= 0:
            answer |= await self._here(state, subject.tix)
        probe = await look(core, self._inquiries, state, reason, names)
        finding = probe.finding
        if finding is not None and finding.funnels:
            # A look that found no place is noted as a turn would be, so that `get` and events say
            # what this answer says (decision 0036).
            reason = self._looked(why(core, state, names=names) or reason, state, probe)
            answer["room"] = room(finding, reason.reason)
            if probe.placement_scores is not None and finding.code is OutcomeCode.PLACED:
                answer.setdefault("here", here(core, state, probe.placement_scores))
        self._reported(state.job.jid)
        if answer["eta"] is not None:
            self._estimates.give(state, answer["eta"], now)  # now the job has a story
        answer |= self._why(reason, now, names)
        if probe.silent:
            answer["incomplete"] = f"{probe.silent}; what follows is what the coordinator remembers"
        if finding is not None and finding.funnels:
            answer |= self._figures(reason, state, probe, finding, names)
        answer["next"] = next_step(reason, state.job, core.order.session.policy.dialect)
        return answer

    def _estimate(self, state: JobState, now: float) -> dict[str, Any] | None:
        """The expected remaining wait, with what became of earlier estimates in its queue."""
        eta = estimate(self._core.tally.waits.likes, state, now)
        if eta is None:
            return None
        record = self._estimates.of_queue(state.job.queue, now)
        return eta if record is None else eta | {"record": record}

    async def _here(self, state: JobState, tix: int) -> dict[str, Any]:
        """Why its task is on its node, as far as known."""
        answer = await look_here(self._core, self._inquiries, state, tix)
        return {} if answer is None else {"here": here(self._core, state, answer[0])}

    def _looked(self, reason: Why, state: JobState, probe: WorkerFindings) -> Why:
        """The published reason and amounts, with the shard that has just looked at every node."""
        epoch = self._core.dispatcher.shards[probe.shard].epoch
        return replace(
            reason,
            evaluated_at=self._clock(),
            shard=probe.shard,
            session=0 if state.last is None else state.last.session,
            epoch=str(epoch) if epoch is not None else "",
            generation=state.job.spec,
        )

    # --- parts ----------------------------------------------------------------------------------

    async def _past(self, state: JobState) -> Story | None:
        """Past of a job before this coordinator led, as far as the history has it."""
        jid, created = state.job.jid, state.job.created
        if self._history is None or created >= self._since:
            return None
        if (cached := self._pasts.get(jid)) is not None:
            return cached
        read = partial(past_of_job, self._history, jid, since=created - 1, until=self._since)
        try:
            events = await asyncio.to_thread(read)
        except OSError:  # it is on another machine, or not kept
            return None
        story = past_story(self._core, state, events)
        if self._clock() > self._since + LATE_SECONDS:
            if len(self._pasts) >= PASTS:
                self._pasts.clear()
            self._pasts[jid] = story
        return story

    def _head(
        self,
        kind: str,
        subject: ExplainTarget,
        state: JobState,
        now: float,
        *,
        past: Story | None,
    ) -> dict[str, Any]:
        core, job, place = self._core, state.job, place_in_queue(self._core, state)
        story = self._stories.jobs.get(job.jid)
        is_job = job.kind == "Job"
        events = self._events_of(Key("Job", job.namespace, job.name)) if is_job else ()
        # A deleted member is FAILED to its gang, and nobody's failure to people.
        counts = Counter(TaskState(code).name.capitalize() for code in state.states)
        if deleted := deleted_members(state):
            counts.update({"Failed": -deleted, "Deleted": deleted})
        head: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "Explanation",
            "of": {"kind": BY_KIND[kind].written, "namespace": job.namespace, "name": job.name},
            "queue": job.queue,
            "phase": _phase(state),
            "ageSeconds": round(max(0.0, now - job.created), 1),
            "tasks": {"total": job.tasks, "minimum": minimum_of(job), **+counts},
            "position": place.position or None,
            "waiting": place.of,
            "ahead": place.ahead,
            "attempts": attempts(state),
            "places": self._places(state),
            "story": story_of(core, state, story, subject.tix, past=past, events=events),
        }
        if silent := self._without_answers(state):
            head["withoutAnswers"] = silent
        if subject.tix >= 0:
            head["pod"] = self._pod(state, subject.tix)
            head["of"]["name"] = head["pod"]["name"]
            head["job"] = {
                "kind": BY_KIND[job.kind].written,
                "namespace": job.namespace,
                "name": job.name,
            }
        return head

    def _without_answers(self, state: JobState) -> list[dict[str, Any]]:
        """Decisions about the job that were made without the answer of another server."""
        reports = [
            {"message": text, "questions": count}
            for text, count in state.turn_results.unanswered.items()
        ]
        order = self._core.order
        missing = (order.contexts.usage_missing(), order.picking.usage.missing())
        return [*reports, *({"message": message} for message in missing if message)]

    def _places(self, state: JobState) -> list[dict[str, Any]]:
        """The nodes of its tasks; with levels where only one shard ever placed it."""
        core, by_row = self._core, Counter[int]()
        for row, code in zip(state.rows, state.states, strict=False):
            if row >= 0 and code in HOLDING:
                by_row[row] += 1
        return [
            {"node": core.names.get(row, f"row {row}"), "tasks": count} | self._level(state, row)
            for row, count in sorted(by_row.items(), key=lambda item: (-item[1], item[0]))[:NODES]
        ]

    def _level(self, state: JobState, row: int) -> dict[str, Any]:
        """The shard of a node, and the level of a task there where it is certain."""
        shard = self._core.dispatcher.shard_of.get(row)
        if shard is None:
            return {}
        level_fields: dict[str, Any] = {"shard": shard}
        shards, nominated = state.turn_results.shards, state.turn_results.nominated
        if shards.bit_count() == 1 and not nominated:
            is_own = shards == 1 << shard
            level = Level.IDLE_OWN if is_own else Level.IDLE_OTHER
            level_fields |= {"level": f"L{level.value}", "because": LEVEL_WORDS[level]}
        return level_fields

    def _pod(self, state: JobState, tix: int) -> dict[str, Any]:
        role = state.job.role_of(tix)
        row = state.rows[tix] if tix < len(state.rows) else -1
        return {
            "name": state.job.pod_name(tix),
            "role": role.name,
            "state": TaskState(state.states[tix]).name.capitalize(),
            "node": self._core.names.get(row) if row >= 0 else None,
        }

    def _why(self, reason: Why, now: float, names: Sequence[str]) -> dict[str, Any]:
        return {
            "reason": reason.reason.value,
            "message": reason.message,
            "evaluatedAt": rfc3339(reason.evaluated_at or now, "milliseconds"),
            "shard": reason.shard if reason.shard >= 0 else None,
            "session": reason.session or None,
            "epoch": reason.epoch or None,
            "observedGeneration": reason.generation,
            "requested": by_name(reason.requested, names),
            "available": by_name(reason.available, names),
            "short": by_name(reason.short, names),
        }

    def _figures(
        self,
        reason: Why,
        state: JobState,
        probe: WorkerFindings,
        finding: InquiryFinding,
        names: Sequence[str],
    ) -> dict[str, Any]:
        role = finding.funnels[0]
        fits_now = finding.code is OutcomeCode.PLACED
        return {
            "role": role.role,
            "nodes": self.nodes(role.funnel),
            "near": self._near(role.funnel, names),
            "if": advice(
                reason, role, names, job=state.job, changes=probe.changes, fits_now=fits_now
            ),
            "roles": [_role(r) for r in finding.funnels] if len(finding.funnels) > 1 else [],
        }

    def nodes(self, f: Funnel) -> dict[str, Any]:
        """The funnel: ``total`` is the sum of the counts and ``fits``."""
        return {
            "total": f.total,
            "fits": f.fits,
            "tasksThatCouldStart": f.starts,
            "first": [
                {
                    "check": check.name,
                    "kind": check.kind,
                    "count": check.count,
                    "examples": self._names(check.examples),
                    "onlyThis": check.only,
                }
                for check in f.checks
            ],
        }

    def _near(self, f: Funnel, names: Sequence[str]) -> list[dict[str, Any]]:
        core = self._core
        holders_of = holders(core, [near.row for near in f.near])
        return [
            {
                "node": core.names.get(near.row, f"row {near.row}"),
                "shard": core.dispatcher.shard_of.get(near.row),
                "lacks": [_lack(lack, names) for lack in near.lacks],
                "heldBy": holders_of[near.row].jobs,
                "leaving": holders_of[near.row].leaving,
            }
            for near in f.near
        ]

    def _names(self, rows: Sequence[int]) -> list[str]:
        return [self._core.names.get(row, f"row {row}") for row in rows]


def _lack(lack: tuple[int, int, int, int], names: Sequence[str]) -> dict[str, str]:
    slot, needs, idle, future = lack
    name = name_of(slot, names)
    return {
        "resource": name,
        "needs": quantity(name, needs),
        "idle": quantity(name, max(0, idle)),
        "futureIdle": quantity(name, max(0, future)),
    }


def _role(role: RoleFunnel) -> Mapping[str, Any]:
    return {"role": role.role, "wanted": role.needed, "couldStart": role.funnel.starts}


def _phase(state: JobState) -> str:
    if state.status is SchedulingStatus.DONE:
        failed = sum(map(state.states.count, UNSUCCESSFUL)) - deleted_members(state)
        return "Failed" if failed else "Succeeded"
    return "Running" if state.info.held[0] >= max(1, state.job.groups[0].minimum) else "Pending"


def _leaving(state: JobState) -> dict[str, Any]:
    holding = sum(code in HOLDING for code in state.states)
    text = f"it is being deleted; {plural(holding, 'task')} of it still hold a node"
    return {
        "phase": "Terminating",
        "reason": None,
        "message": text,
        "next": "its name is free when the last of its tasks has left",
    }


def _no_reason(state: JobState) -> dict[str, Any]:
    has_ended = state.status is SchedulingStatus.DONE
    text = "every task has ended" if has_ended else "every task has its node"
    return {"reason": None, "message": text, "next": None}


NOTE = "as nodes stand now, without this task"


def here(core: Coordinator, state: JobState, scores: PlacementScores) -> dict[str, Any]:
    """``nodes``: how many take the task at each level. ``candidates``: the best first; ``level`` is
    None where a node would not take it now."""
    return {
        "pod": state.job.pod_name(scores.tix),
        "note": NOTE,
        "plugins": scores.plugins,
        "nodes": {f"L{level}": count for level, count in enumerate(scores.nodes, start=1)},
        "candidates": [
            {
                "node": core.names.get(candidate.row, f"row {candidate.row}"),
                "shard": core.dispatcher.shard_of.get(candidate.row),
                "level": f"L{candidate.level}" if candidate.level else None,
                "scores": dict(zip(scores.plugins, candidate.scores, strict=True)),
                "final": sum(candidate.scores),
                "chosen": candidate.row == scores.row,
            }
            for candidate in scores.candidates
        ],
    }
