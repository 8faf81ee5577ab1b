"""Virtual time: a heap of events, each with its name, and the random choices of a run."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

Event = Callable[[], None]


class Place(StrEnum):
    """Where requests go that are asked again until there is an answer."""

    LEDGER = "ledger"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Network:
    """Mean seconds a message takes (the delay is exponential, so order is not kept), and faults."""

    call: float = 0.002
    """Between coordinator and worker."""
    ledger: float = 0.003
    """To the ledger, or back from it."""
    cluster: float = 0.004
    """To the cluster, or back from it."""
    request_lost: float = 0.01
    """Part of the requests that never arrive."""
    answer_lost: float = 0.03
    """Part of the answers that never arrive: the same is asked again."""
    echo: float = 0.03
    """Part of the requests that arrive once more, much later."""
    dies_with_sender: float = 0.5
    """Part of the messages under way that are lost when the process that sent them dies."""

    def mean(self, place: Place) -> float:
        return self.ledger if place is Place.LEDGER else self.cluster


CALM = Network(request_lost=0.0, answer_lost=0.0, echo=0.0)
"""Every message arrives once."""

ECHO_SECONDS = 0.1
"""How late a request arrives that comes a second time, in the mean."""


class Timeline:
    """``now``: seconds, as the parts of the run see them; ``random``: the seed's only source."""

    def __init__(self, seed: int, network: Network) -> None:
        self.now = 1_000.0
        self.random = random.Random(seed)
        self.network = network
        self.struck: Counter[str] = Counter()
        """What went wrong, by kind."""
        self.recoveries: list[tuple[str, float]] = []
        """(role, seconds until its work went on), for each time that it was away."""
        self._fallen: dict[str, float] = {}
        self._back_at = dict.fromkeys(Place, 0.0)
        self._events: list[tuple[float, int, str, Event]] = []
        self._count = 0
        self._rounds = 0
        self._in_background = False

    def after(self, seconds: float, event: Event, what: str = "") -> None:
        """Let an event happen so many seconds from now; equal times keep their order. What happens
        in the background has its consequences there."""
        if self._in_background:
            event = self._as_background(event)
        self._push(seconds, event, what)

    def _push(self, seconds: float, event: Event, what: str) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, what, event))

    def send(self, mean: float, event: Event, what: str = "") -> None:
        """A message that takes ``mean`` seconds in the mean."""
        self.after(self.random.expovariate(1 / mean), event, what)

    def strikes(self, probability: float, kind: str = "") -> bool:
        """Whether a fault happens here; one that has a kind is counted."""
        if self.random.random() >= probability:
            return False
        if kind:
            self.struck[kind] += 1
        return True

    def fell(self, role: str) -> None:
        """From now on nobody does its work."""
        self._fallen.setdefault(role, self.now)

    def rose(self, role: str) -> None:
        """Its work goes on, where it did not."""
        if (since := self._fallen.pop(role, None)) is not None:
            self.recoveries.append((role.partition(" ")[0], self.now - since))

    def leave(self, place: Place, seconds: float) -> None:
        """It cannot be reached for so long."""
        self._back_at[place] = max(self._back_at[place], self.now + seconds)

    def reaches(self, place: Place) -> bool:
        return self._back_at[place] <= self.now

    def round(self, seconds: float, event: Event, *, background: bool = False) -> None:
        """Let something happen that goes on for ever, and tells nothing of what is still to do.
        With ``background`` neither do the messages that follow from it."""
        if background:
            self._push(seconds, self._as_background(event), "")
            return

        def happen() -> None:
            self._rounds -= 1
            event()

        self._rounds += 1
        self._push(seconds, happen, "")

    def _as_background(self, event: Event) -> Event:
        self._rounds += 1

        def happen() -> None:
            self._rounds -= 1
            self._in_background = True
            try:
                event()
            finally:
                self._in_background = False

        return happen

    def quiet(self) -> bool:
        """Whether nothing but rounds, and what is in the background, is to come."""
        return len(self._events) == self._rounds

    def next_event(self, until: float) -> tuple[str, Event] | None:
        """Move on to the next event and its name; None where there is none before ``until``."""
        if not self._events or self._events[0][0] > until:
            return None
        self.now, _, what, event = heapq.heappop(self._events)
        return what, event
