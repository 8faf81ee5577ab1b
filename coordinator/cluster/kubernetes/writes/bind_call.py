"""One call for binds: what is asked, and the answers as they come. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    Phase,
    incarnation_of,
)
from shared.units.things import Things

NO_NODE = "NodeGone"
"""Reason of a refusal: the node was deleted."""


@dataclass(slots=True)
class BindCall:
    requests: BindRequests
    rows: Sequence[PodRow | None]
    """The pods of the requests; None where there is none."""
    answers: list[int] = field(init=False)
    where: list[str] = field(init=False)
    reasons: list[str] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.requests.tasks)
        self.answers = [int(BindAnswer.UNKNOWN)] * count
        self.where, self.reasons = [""] * count, [""] * count

    def devices(self, i: int) -> Things:
        return self.requests.devices[i] if self.requests.devices else ()

    def entry(self, i: int) -> str:
        return self.requests.entries[i] if self.requests.entries else ""

    def answer(self, i: int, answer: BindAnswer, node: str = "") -> None:
        self.answers[i], self.where[i] = int(answer), node

    def refuse(self, i: int, reason: str) -> None:
        self.answers[i], self.reasons[i] = int(BindAnswer.REFUSED), reason

    def answered_by_watch(self, i: int) -> bool:
        """Answer from what the watch of pods said, where that is enough."""
        row, node = self.rows[i], self.requests.nodes[i]
        # A pod that is placed again after an eviction is another pod, which has a task of its own.
        if (
            row is None
            or row.gone
            or row.phase is Phase.FAILED
            or incarnation_of(self.requests.uids[i])
        ):
            self.answer(i, BindAnswer.GONE)
        elif row.phase is Phase.SUCCEEDED:
            self.answer(i, BindAnswer.SUCCEEDED)
        elif row.node:
            answer = BindAnswer.ALREADY if row.node == node else BindAnswer.ELSEWHERE
            self.answer(i, answer, row.node)
        else:
            return False
        return True

    def result(self) -> BindAnswers:
        reasons = self.reasons if any(self.reasons) else []
        return BindAnswers(self.answers, self.where, reasons)
