"""A process of a seeded run, with its messages, pauses and death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from laboratory.simulation.virtual_time import ECHO_SECONDS, Event, Place, Timeline

T = TypeVar("T")

BETWEEN = 0.5
"""Fraction of pauses that happen between a decision and its message."""

EFFECTS = frozenset(f"{what} asked" for what in ("commit", "record", "store", "bind", "stop"))
"""Messages that have an effect at their receiver."""

FAR_SECONDS = 0.5
"""Events due later than this do not keep a run going: remaining work is known otherwise."""

LOST_SECONDS = 0.02
"""A request is repeated after this time without an answer."""


class Process:
    """A process that can die or pause.

    After its death its timers stop and it receives nothing; messages that it sent arrive or are
    lost, by the seed. While it is paused everything waits for it.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.network = timeline.network
        self.alive = True
        self._awake_at = 0.0
        self._free_at = 0.0
        self._next_pause = 0.0

    @property
    def now(self) -> float:
        return self.timeline.now

    def pause_sending(self, seconds: float) -> None:
        """Pause at the next message that has an effect; it is sent after the pause."""
        self._next_pause = seconds

    def pause(self, seconds: float) -> None:
        """Pause, then continue as if nothing had happened."""
        self._awake_at = max(self._awake_at, self.now + seconds)

    def stick(self, seconds: float) -> None:
        """Block its event loop; its other threads (:class:`Thread`) continue."""
        self._free_at = max(self._free_at, self.now + seconds)

    @property
    def _resumes(self) -> float:
        """The earliest time at which waiting events happen."""
        return max(self._awake_at, self._free_at)

    def after(self, seconds: float, event: Event, what: str = "") -> None:
        """Set a timer of this process."""
        self.timeline.after(seconds, partial(self._while_alive, event, what), what)

    def round(self, seconds: float, event: Event, *, background: bool = False) -> None:
        """Schedule the next occurrence of a periodic event; see :meth:`Timeline.round`."""
        self.timeline.round(seconds, partial(self._while_alive, event, ""), background=background)

    def foreground(self, event: Event) -> None:
        """Go on in the foreground; see :meth:`Timeline.foreground`."""
        self.timeline.foreground(partial(self._while_alive, event, ""))

    def hear(self, mean: float, event: Event, what: str = "") -> None:
        """Send a message to this process."""
        self.timeline.send(mean, partial(self._while_alive, event, what), what)

    def say(self, mean: float, event: Event, what: str = "") -> None:
        """Send a message from this process."""
        # Between the decision and its message: the one moment that only the ledger's checks can
        # judge (decision 0023).
        if self._next_pause and self.alive and what in EFFECTS:
            self.pause(self._next_pause)
            self._next_pause = 0.0
            self.timeline.struck["message held"] += 1
            self.after(self._resumes - self.now, lambda: self.say(mean, event, what))
            return

        def arrive() -> None:
            # What a dead process sent may still be on its way: a late commit of a worker that is
            # replaced by now is what epochs are for.
            if self.alive or not self.timeline.strikes(self.network.dies_with_sender):
                event()

        self.timeline.send(mean, arrive, what)

    def _while_alive(self, event: Event, what: str) -> None:
        if not self.alive:
            return
        wait = self._resumes - self.timeline.now
        if wait <= 0.0:
            event()
        else:
            self.after(wait, event, what)


class Thread(Process):
    """A thread beside a process's event loop: it dies and pauses with the process, but continues
    while only the loop is blocked."""

    def __init__(self, process: Process) -> None:
        self._process = process
        super().__init__(process.timeline)

    @property
    def alive(self) -> bool:
        return self._process.alive

    @alive.setter
    def alive(self, value: bool) -> None:
        """The thread lives as long as its process."""

    @property
    def _resumes(self) -> float:
        # Not `_free_at`: a stuck event loop holds up its own thread alone (decision 0042).
        return self._process._awake_at


def halt(process: Process, seconds: float) -> None:
    """Pause the process, at the worst moment or at any."""
    if process.timeline.strikes(BETWEEN):
        process.pause_sending(seconds)
    else:
        process.pause(seconds)


class Alarm:
    """A timer that fires once, at the earliest time it was set to."""

    def __init__(self, process: Process, ring: Event) -> None:
        self._process = process
        self._ring = ring
        self._at: float | None = None

    def set(self, at: float | None) -> None:
        if at is None or (self._at is not None and self._at <= at):
            return
        self._at = at
        seconds = at - self._process.now
        if seconds < FAR_SECONDS:
            self._process.after(seconds, lambda: self._due(at))
        else:
            self._process.round(seconds, lambda: self._due(at), background=True)

    def _due(self, at: float) -> None:
        if self._at == at:  # else it was set to an earlier time, and has rung
            self._at = None
            self._ring()


class Reply(Generic[T]):
    """The answer that a coroutine awaits. The first one counts; it may arrive several times, also
    when nobody waits any more."""

    def __init__(self) -> None:
        self._future: asyncio.Future[T] | None = asyncio.get_running_loop().create_future()

    def give(self, value: T) -> None:
        if (future := self._future) is not None and not future.done():
            future.set_result(value)

    def fail(self, error: Exception) -> None:
        if (future := self._future) is not None and not future.done():
            future.set_exception(error)

    def __await__(self) -> Generator[Any, None, T]:
        assert self._future is not None
        try:
            return (yield from self._future)
        finally:
            # An error refers to the frames through which it goes, and those to this reply: with the
            # error still in it, only the garbage collector would find them.
            self._future = None


Ask = Callable[[], Any]
Answer = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A question to a place: ``ask`` is called at the other end, and ``answer`` here with its
    result.

    If the request or answer is lost, ``ask`` is repeated; sometimes it is also called once more,
    much later, and its result dropped. It must tolerate both. ``lost`` happens in the place of a
    repetition, once it is known that there is no answer.
    """

    process: Process
    place: Place
    what: str
    ask: Ask
    answer: Answer
    lost: Event | None = None

    def send(self) -> None:
        process = self.process
        process.say(process.network.mean(self.place), self._arrive, f"{self.what} asked")

    def _arrive(self) -> None:
        process, timeline = self.process, self.process.timeline
        network = process.network
        if not timeline.reaches(self.place) or timeline.strikes(
            network.request_lost, "request lost"
        ):
            process.after(LOST_SECONDS, self.lost or self.send)
            return
        result = self.ask()
        # The receiver has acted. What may still be lost is the answer, and what may still come is
        # a copy: both are what sequence numbers and epochs are for.
        if timeline.strikes(network.echo, "request twice"):
            timeline.send(ECHO_SECONDS, self._arrive_again, f"{self.what} asked twice")
        if timeline.strikes(network.answer_lost, "answer lost"):
            process.after(LOST_SECONDS, self.lost or self.send)
        else:
            mean = network.mean(self.place)
            process.hear(mean, partial(self.answer, result), f"{self.what} answered")

    def _arrive_again(self) -> None:
        if self.process.timeline.reaches(self.place):
            self.ask()
