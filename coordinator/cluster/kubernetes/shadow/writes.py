"""Writes of a shadow: the binder's requests are recorded instead of sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from coordinator.cluster.kubernetes.shadow.book import ShadowBook
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, Phase


class ShadowWrites:
    """Binds take place in our books alone, until the cluster shows where the pods really are."""

    def __init__(
        self, mirror: Mirror, book: ShadowBook, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._mirror = mirror
        self._book = book
        self._clock = clock

    async def bind(self, requests: BindRequests, rows: Sequence[PodRow | None]) -> BindAnswers:
        now = self._clock()
        answers = [
            self._bind(row, node, now) for row, node in zip(rows, requests.nodes, strict=True)
        ]
        return BindAnswers([int(answer) for answer in answers], list(requests.nodes))

    def _bind(self, row: PodRow | None, node: str, now: float) -> BindAnswer:
        if row is None or row.gone or row.phase is Phase.FAILED:
            return BindAnswer.GONE
        if row.phase is Phase.SUCCEEDED:
            return BindAnswer.SUCCEEDED
        self._book.would_bind(row, node, now)
        self._mirror.decided(row, node)
        return BindAnswer.OK

    async def evict(self, rows: Sequence[PodRow]) -> list[PodRow]:
        for row in rows:
            if row.node:  # it goes on running: nobody is told to end it
                self._book.would_evict(row, "for another job, by the policy in force")
            elif row.decided:
                self._mirror.undecided(row)
        return []

    async def close(self) -> None:
        self._book.close()
