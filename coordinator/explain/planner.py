"""Plan: what would become of a list of objects, on the live state and without side effects.

The list is admitted as a dry run. Each job that could have a turn is placed by a worker on its
view, each on top of those before it, and everything is undone. A plan shows what is feasible at one
revision and reserves nothing: others may be faster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.inquiry_client import Inquiries, InquiryUnanswered
from coordinator.errors import Problem
from coordinator.explain.hypothetical_turns import best_shards
from coordinator.explain.plan_drawing import PlanCandidate, PlanDrawing
from coordinator.explain.plan_evictions import evicting, take, unanswered
from coordinator.explain.plan_order import picked
from coordinator.explain.plan_report import report
from coordinator.intake.fair_turns import FairTurns
from coordinator.intake.intake import Intake
from coordinator.intake.principal import asker
from coordinator.jobs.pending_reasons import (
    Why,
)
from coordinator.jobs.state import amounts
from shard_worker.inquiry.findings import InquiryFinding
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.codec.packed import replace
from shared.manifests.fields.generated_names import with_numbered_names
from shared.messages.messages import OutcomeCode
from shared.messages.reason import Reason
from shared.slices import Steps, at_once, in_slices

JOBS = 200
"""Most jobs of one plan: bounds how long it keeps a worker from its turns."""
MOST_WAITING = 64
"""Most plans that wait for their turn: more than the inquiries that are admitted at once."""

ROUNDS = 4
"""Most inquiries of one plan: each knows which turns of the one before found no place."""
_FOUND_A_PLACE = (OutcomeCode.PLACED, OutcomeCode.NOMINATED)
TOO_MANY = "the shard had no time for so many jobs; plan fewer at once"


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
        self._turns = FairTurns(slots=1, size=MOST_WAITING)

    async def plan(self, items: Sequence[object]) -> dict[str, Any]:
        """The answer as JSON. Raises Problem (413, 429).

        One plan after the other: what several do at the same time here and in a worker, everybody
        else waits for."""
        with self._inquiries.turnstile(asker()):
            async with self._turns.turn(asker()):
                return await self._planned(items)

    async def _planned(self, items: Sequence[object]) -> dict[str, Any]:
        parsed = await in_slices(self._intake.parsing(with_numbered_names(items)))
        # In one go: what it is judged by would move meanwhile.
        admission = at_once(self._intake.judging(parsed, self._clock(), keep=False))
        if len(admission.jobs) > JOBS:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"{len(admission.jobs)} jobs; a plan looks at {JOBS} at most, send fewer",
            )
        drawn = PlanDrawing(self._core, self._intake, admission)
        await asyncio.sleep(0)
        candidates = await in_slices(drawn.draw())
        await asyncio.sleep(0)
        if candidates:
            await self._ask(drawn, candidates)
        return report(self._core, drawn.plan, total=len(items))

    # --- workers --------------------------------------------------------------------------------

    async def _ask(self, drawn: PlanDrawing, candidates: list[PlanCandidate]) -> None:
        try:
            if self._core.order.walls:
                await self._behind_walls(drawn, candidates)
            else:
                await self._anywhere(drawn, candidates)
        except InquiryUnanswered as error:
            for candidate in candidates:
                if candidate.planned.finding is None:
                    candidate.planned.silent = str(error)
                    text = f"no shard answered ({error}); plan again in a moment"
                    candidate.planned.why = Why(Reason.PENDING_EVALUATION, text)

    async def _anywhere(self, drawn: PlanDrawing, candidates: list[PlanCandidate]) -> None:
        """Every worker sees every node: one of them places all jobs."""
        need: Amounts = {}
        for candidate in candidates:
            for slot, amount in amounts(tuple(candidate.needed.items()), drawn.classes).items():
                need[slot] = need.get(slot, 0) + amount
        shards = best_shards(self._core, need)
        misses: set[tuple[int, int]] = set()
        for _ in range(ROUNDS):
            jobs = drawn.parts(candidates)
            order = await in_slices(picked(self._core.order, jobs, drawn.classes, misses=misses))
            tried = [replace(candidates[number], turn=turn) for number, _, turn in order.turns]
            shard, answer = await self._inquiries.ask_any(shards, drawn.inquiry(tried))
            answered = list(zip(order.turns, answer.findings, strict=False))
            missed = {
                (number, at) for (number, at, _), f in answered if f.code not in _FOUND_A_PLACE
            }
            # What found no place takes no share: the picks after it are others then.
            if missed == misses or len(candidates) == 1:
                break
            misses = missed
        drawn.plan.revision = answer.log_id
        findings: dict[int, list[InquiryFinding]] = {}
        for (number, _, _), finding in answered:
            findings.setdefault(number, []).append(finding)
        await in_slices(_take_up(drawn, candidates, shard, findings, order.denied))
        drawn.settle(candidates)
        await asyncio.sleep(0)
        placed = [
            candidate
            for candidate, finding in zip(tried, answer.findings, strict=False)
            if finding.code in _FOUND_A_PLACE
        ]
        await self._evict(drawn, candidates, {shard: placed})

    async def _behind_walls(self, drawn: PlanDrawing, candidates: list[PlanCandidate]) -> None:
        """Each worker sees its own nodes only: the first with room for a job gets it, on top of
        those it got before."""
        placed_on: dict[int, list[PlanCandidate]] = {}
        for candidate in candidates:
            answers: list[tuple[int, InquiryFinding]] = []
            for shard in best_shards(
                self._core, amounts(tuple(candidate.needed.items()), drawn.classes)
            ):
                before = placed_on.setdefault(shard, [])
                answer = await self._inquiries.ask(shard, drawn.inquiry([*before, candidate]))
                drawn.plan.revision = answer.log_id
                if len(answer.findings) <= len(before):
                    candidate.planned.why = Why(
                        Reason.PENDING_EVALUATION, f"not looked at: {TOO_MANY}"
                    )
                    continue
                answers.append((shard, answer.findings[-1]))
                if answer.findings[-1].code is OutcomeCode.PLACED:
                    before.append(candidate)
                    break
            if answers:
                drawn.take(candidate, answers)
        await self._evict(drawn, candidates, placed_on)

    async def _evict(
        self,
        drawn: PlanDrawing,
        candidates: list[PlanCandidate],
        placed_on: dict[int, list[PlanCandidate]],
    ) -> None:
        """Plan evictions for candidates that found no place. ``placed_on``: shard -> candidates
        with a place there, to be replayed before."""
        turns = await in_slices(evicting(self._core, drawn, candidates))
        for shard, before in placed_on.items():
            if not turns:
                return
            turn_count = len(before) + len(turns)
            try:
                answer = await self._inquiries.ask(shard, drawn.inquiry([*before, *turns]))
            except InquiryUnanswered as error:
                return unanswered(turns, str(error))
            late = (
                turns[len(answer.findings) - turn_count :]
                if len(answer.findings) < turn_count
                else []
            )
            turns = take(drawn, turns, answer.findings[len(before) :], shard)
            if late:
                return unanswered(late, TOO_MANY)


def _take_up(
    drawn: PlanDrawing,
    candidates: list[PlanCandidate],
    shard: int,
    findings: dict[int, list[InquiryFinding]],
    denied: dict[int, QueueInfo],
) -> Steps[None]:
    """Give each candidate its findings, by its number, or the reason why there are none."""
    for number, candidate in enumerate(candidates):
        yield
        if number in findings:
            drawn.take(candidate, [(shard, _whole(findings[number]))])
        elif number in denied:
            candidate.planned.why = drawn.denied(candidate, denied[number])
        else:
            text = f"not looked at: {TOO_MANY}"
            candidate.planned.why = Why(Reason.PENDING_EVALUATION, text)


def _whole(findings: list[InquiryFinding]) -> InquiryFinding:
    """The finding for a job's minimum, with the places that its other tasks got: none without the
    minimum."""
    first, *rest = findings
    if first.code not in _FOUND_A_PLACE:
        return first
    placements = [placement for finding in rest for placement in finding.placements]
    displaced = sorted({jid for finding in findings for jid in finding.displaced})
    return replace(first, placements=[*first.placements, *placements], displaced=displaced)
