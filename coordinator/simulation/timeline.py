"""Virtual time: a heap of events, and what messages suffer on their way."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Event = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Network:
    """Mean seconds a message takes (the delay is exponential, so order is not kept), and faults."""

    call: float = 0.002
    """Between coordinator and worker."""
    ledger: float = 0.003
    """To the ledger, or back from it."""
    cluster: float = 0.004
    """To the cluster, or back from it."""
    answer_lost: float = 0.03
    """Part of the answers that never arrive: the same is asked again."""
    echo: float = 0.03
    """Part of the commit batches that arrive once more, much later."""
    dies_with_sender: float = 0.5
    """Part of the messages under way that are lost when the process that sent them dies."""


class Timeline:
    """``now``: seconds, as the parts of the run see them; ``random``: the seed's only source."""

    def __init__(self, seed: int, network: Network) -> None:
        self.now = 1_000.0
        self.random = random.Random(seed)
        self.network = network
        self._events: list[tuple[float, int, Event]] = []
        self._count = 0
        self._rounds = 0

    def after(self, seconds: float, event: Event) -> None:
        """Let an event happen so many seconds from now; equal times keep their order."""
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, event))

    def send(self, mean: float, event: Event) -> None:
        """A message that takes ``mean`` seconds in the mean."""
        self.after(self.random.expovariate(1 / mean), event)

    def strikes(self, probability: float) -> bool:
        """Whether a fault happens here."""
        return self.random.random() < probability

    def round(self, seconds: float, event: Event) -> None:
        """Let something happen that goes on for ever, and tells nothing of what is still to do."""

        def happen() -> None:
            self._rounds -= 1
            event()

        self._rounds += 1
        self.after(seconds, happen)

    def quiet(self) -> bool:
        """Whether nothing but rounds is to come."""
        return len(self._events) == self._rounds

    def next_event(self, until: float) -> Event | None:
        """Move on to the next event; None where there is none before ``until``."""
        if not self._events or self._events[0][0] > until:
            return None
        self.now, _, event = heapq.heappop(self._events)
        return event


class Process:
    """Something that can die: its timers stop and it hears nothing more; what it said arrives all
    the same, or vanishes with it, by the seed."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.network = timeline.network
        self.alive = True

    @property
    def now(self) -> float:
        return self.timeline.now

    def after(self, seconds: float, event: Event) -> None:
        """A timer of its own."""
        self.timeline.after(seconds, lambda: self._while_alive(event))

    def round(self, seconds: float, event: Event) -> None:
        """One of its periodic looks; see :meth:`Timeline.round`."""
        self.timeline.round(seconds, lambda: self._while_alive(event))

    def hear(self, mean: float, event: Event) -> None:
        """A message to this process."""
        self.timeline.send(mean, lambda: self._while_alive(event))

    def say(self, mean: float, event: Event) -> None:
        """A message from this process."""

        def arrive() -> None:
            if self.alive or not self.timeline.strikes(self.network.dies_with_sender):
                event()

        self.timeline.send(mean, arrive)

    def _while_alive(self, event: Event) -> None:
        if self.alive:
            event()


class Alarm:
    """Rings at the earliest time it was set to, once."""

    def __init__(self, process: Process, ring: Event) -> None:
        self._process = process
        self._ring = ring
        self._at: float | None = None

    def set(self, at: float | None) -> None:
        if at is None or (self._at is not None and self._at <= at):
            return
        self._at = at
        self._process.after(at - self._process.now, lambda: self._due(at))

    def _due(self, at: float) -> None:
        if self._at == at:  # else it was set to an earlier time, and has rung
            self._at = None
            self._ring()


class Again:
    """What ``ask`` returns where there is more to ask before there is an answer."""


AGAIN = Again()


class Lane:
    """Requests that go one at a time, in order: one is on its way while the others wait."""

    def __init__(self, process: Process, mean: float) -> None:
        self._process = process
        self._mean = mean
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._busy = False

    def push(self, ask: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """``ask`` happens at the other end, ``answer`` gets its result when that is back.

        Where the answer is lost, or is AGAIN, ``ask`` happens again: it must bear that."""
        self._waiting.append((ask, answer))
        self._go_on()

    def _go_on(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        self._ask(*self._waiting.popleft())

    def _ask(self, ask: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        process = self._process

        def arrive() -> None:
            result = ask()
            if process.timeline.strikes(process.network.answer_lost):
                process.hear(self._mean, lambda: self._ask(ask, answer))
            else:
                process.hear(self._mean, lambda: back(result))

        def back(result: Any) -> None:
            if result is AGAIN:
                self._ask(ask, answer)
                return
            self._busy = False
            answer(result)
            self._go_on()

        process.say(self._mean, arrive)
