"""Reads of a stream in a seeded run: a request waits at its receiver until there is something to
answer, or its time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from laboratory.simulation.process import LOST_SECONDS, Process, Reply
from laboratory.simulation.virtual_time import Place

T = TypeVar("T")


class LongPolls:
    """Requests of one process that wait at one receiver until it has something to answer.

    A waiting request does not keep the run going. A lost one is not repeated here: its caller gets
    the error and asks again.
    """

    def __init__(
        self, process: Process, place: Place, *, what: str, lost: Callable[[str], Exception]
    ) -> None:
        """``lost`` makes the error of a request that gets no answer."""
        self._process = process
        self._place = place
        self._mean = process.network.mean(place)
        self._what = what
        self._lost = lost
        self._waiting: list[Callable[[], bool]] = []

    async def ask(self, look: Callable[[], T], *, empty: Callable[[T], bool], seconds: float) -> T:
        """The result of ``look`` at the receiver, which waits up to ``seconds`` while that is
        ``empty``."""
        process, timeline = self._process, self._process.timeline
        reply: Reply[T] = Reply()

        def unanswered() -> None:
            error = self._lost(f"{self._what} had no answer")
            process.after(LOST_SECONDS, lambda: reply.fail(error))

        def answer(result: T) -> None:
            if timeline.strikes(process.network.answer_lost, "answer lost"):
                unanswered()
            else:
                process.hear(self._mean, lambda: reply.give(result), f"{self._what} answered")

        def attempt() -> bool:
            result = look()
            if empty(result):
                return False
            answer(result)
            return True

        def expire() -> None:
            if attempt not in self._waiting:
                return
            self._waiting.remove(attempt)
            if timeline.reaches(self._place):
                answer(look())
            else:
                unanswered()

        def arrive() -> None:
            lost = timeline.strikes(process.network.request_lost, "request lost")
            if lost or not timeline.reaches(self._place):
                unanswered()
            elif not attempt():
                self._waiting.append(attempt)
                timeline.round(seconds, expire, background=True)

        process.say(self._mean, arrive, f"{self._what} asked")
        return await reply

    def wake(self) -> None:
        """Look again for every waiting request. Those of a dead process are dropped."""
        if not self._process.alive:
            self._waiting.clear()
        waiting, self._waiting = self._waiting, []
        self._waiting = [attempt for attempt in waiting if not attempt()]
