"""Virtual time: a heap of named events, and the random choices of a run."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import msgspec

Event = Callable[[], None]

Due = tuple[str, Event, bool]
"""(name, event, whether it happens in the background)"""

WORK, ROUND, BACKGROUND = range(3)
"""Kinds of events: one that keeps a run going, one that does not, and one whose consequences do not
either. In the heap beside the event: a function around each event that says it would cost as much
as the loop."""


class Place(StrEnum):
    """Receivers of requests that are repeated until there is an answer."""

    LEDGER = "ledger"
    CLUSTER = "cluster"


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mean delays of messages in seconds (exponentially distributed, so order is not kept), and
    fault rates."""

    call: float = 0.002
    """Between coordinator and worker."""
    ledger: float = 0.003
    """To the ledger, or back from it."""
    cluster: float = 0.004
    """To the cluster, or back from it."""
    request_lost: float = 0.01
    """Fraction of requests that never arrive."""
    answer_lost: float = 0.03
    """Fraction of answers that never arrive, so that the request is repeated."""
    echo: float = 0.03
    """Fraction of requests that arrive a second time, much later."""
    dies_with_sender: float = 0.5
    """Fraction of a process's messages in flight that are lost when it dies."""
    other_version: float = 0.4
    """Fraction of the workers, in a run whose seed has a rolling upgrade, that start on a Ray node
    with another version and are refused."""

    def mean(self, place: Place) -> float:
        return self.ledger if place is Place.LEDGER else self.cluster


CALM = Network(request_lost=0.0, answer_lost=0.0, echo=0.0, other_version=0.0)
"""Every message arrives once, and every worker is of this version."""

START = 1_000.0
"""When virtual time begins, in seconds since 1970."""
ECHO_SECONDS = 0.1
"""Mean delay of a duplicated request."""


class Timeline:
    """``now``: virtual time in seconds; ``random``: the only source of randomness."""

    def __init__(self, seed: int, network: Network, *, start: float = START) -> None:
        self.now = start
        self.random = random.Random(seed)
        self.network = network
        self.struck: Counter[str] = Counter()
        """Number of faults by kind."""
        self.recoveries: list[tuple[str, float]] = []
        """(role, seconds until it worked again) for each outage."""
        self._fallen: dict[str, float] = {}
        self._back_at = dict.fromkeys(Place, 0.0)
        self._events: list[tuple[float, int, str, Event, int]] = []
        self._count = 0
        self._rounds = 0
        self.in_background = False
        """Whether what happens now keeps the run going."""

    def after(self, seconds: float, event: Event, what: str = "") -> None:
        """Schedule an event; equal times keep their order. Events scheduled from the background are
        background events too."""
        self._push(seconds, event, what, BACKGROUND if self.in_background else WORK)

    def _push(self, seconds: float, event: Event, what: str, kind: int) -> None:
        self._count += 1
        if kind != WORK:
            self._rounds += 1
        at = self.now + seconds if seconds > 0.0 else self.now
        # The count breaks ties: equal times keep their order, in every process and whatever the
        # hash seed.
        heapq.heappush(self._events, (at, self._count, what, event, kind))

    def send(self, mean: float, event: Event, what: str = "") -> None:
        """Schedule a message with this mean delay."""
        self.after(self.random.expovariate(1 / mean), event, what)

    def strikes(self, probability: float, kind: str = "") -> bool:
        """Draw whether a fault happens; one with a kind is counted."""
        if self.random.random() >= probability:
            return False
        if kind:
            self.struck[kind] += 1
        return True

    def fell(self, role: str) -> None:
        """From now on the role is not being performed."""
        self._fallen.setdefault(role, self.now)

    def rose(self, role: str) -> None:
        """The role is performed again; does nothing if it was."""
        if (since := self._fallen.pop(role, None)) is not None:
            self.recoveries.append((role.partition(" ")[0], self.now - since))

    def leave(self, place: Place, seconds: float) -> None:
        """The place is unreachable for this time."""
        self._back_at[place] = max(self._back_at[place], self.now + seconds)

    def reaches(self, place: Place) -> bool:
        return self._back_at[place] <= self.now

    def round(self, seconds: float, event: Event, *, background: bool = False) -> None:
        """Schedule the next occurrence of a periodic event, which does not keep a run going. With
        ``background`` the messages that follow from it do not either."""
        self._push(seconds, event, "", BACKGROUND if background else ROUND)

    def foreground(self, event: Event) -> None:
        """Schedule an event that keeps the run going, also from the background."""
        self._push(0.0, event, "", WORK)

    def quiet(self) -> bool:
        """Whether only periodic and background events remain."""
        return len(self._events) == self._rounds

    def next_event(self, until: float) -> Due | None:
        """Advance to the next event, which the caller lets happen; None if there is none up to
        ``until``."""
        events = self._events
        if not events or events[0][0] > until:
            return None
        self.now, _, label, event, kind = heapq.heappop(events)
        if kind != WORK:
            self._rounds -= 1
        return label, event, kind == BACKGROUND
