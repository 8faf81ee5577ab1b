"""What befalls the API server and its answers, by seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from laboratory.api_server.effects import (
    CutStream,
    DelayAnswer,
    DelayRequest,
    Effect,
    LoseAnswer,
    LoseRequest,
    failed,
    overloaded,
)
from laboratory.api_server.server import Request
from laboratory.simulation.virtual_time import Event, Timeline

DELAYED_SECONDS = 60.0
"""How late a binding of a leader arrives that is deposed by then."""
OFTEN = 0.6
"""Share of the requests of a storm that meet it."""
LONGEST_ANSWER = 8.0
"""Seconds: longer than any write of ours waits."""


class ServerFaultKind(StrEnum):
    KILLED = "API server killed"
    COMPACTED = "API server killed, etcd compacted"
    WATCHES_CUT = "watches cut within an event"
    OVERLOAD = "storm of 429"
    FAILURES = "storm of 500"
    SLOW = "answers past their deadline"
    ANSWERS_LOST = "connections reset after the write"
    REQUESTS_LOST = "connections reset before the write"
    DEPOSED_BINDING = "a deposed leader's binding arrives 60 s late"


@dataclass(frozen=True, slots=True)
class ServerFault:
    kind: ServerFaultKind
    at: float
    """Seconds after the start."""
    seconds: float
    """How long it lasts, or the server is away."""


def draw_faults(draw: Random, *, first: float, last: float) -> list[ServerFault]:
    """Some, of all kinds, between two times."""
    kinds = list(ServerFaultKind)
    return [
        ServerFault(draw.choice(kinds), draw.uniform(first, last), draw.uniform(0.5, 4.0))
        for _ in range(draw.choice([0, 1, 2, 3, 4]))
    ]


class ServerFaults:
    """Which requests meet what, while faults last."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._until: dict[ServerFaultKind, float] = {}
        self._delayed = 0
        """Bindings that are to be held back."""
        self._when_held: Event | None = None

    def begin(self, kind: ServerFaultKind, seconds: float) -> None:
        self._until[kind] = self._timeline.now + seconds

    def hold_bindings(self, count: int, then: Event) -> None:
        """The next bindings arrive late; ``then``: called as soon as the first one is held."""
        self._delayed += count
        self._when_held = then

    def effect(self, request: Request) -> Effect | None:
        if self._delayed and request.path.endswith("/binding"):
            self._delayed -= 1
            then, self._when_held = self._when_held, None
            if then is not None:
                then()
            self._timeline.struck["binding held back"] += 1
            return DelayRequest(DELAYED_SECONDS)
        now, timeline = self._timeline.now, self._timeline
        for kind, until in self._until.items():
            if now < until and timeline.random.random() < OFTEN:
                effect = self._of(kind, request)
                if effect is not None:
                    timeline.struck[f"request: {kind}"] += 1
                    return effect
        return None

    def _of(self, kind: ServerFaultKind, request: Request) -> Effect | None:
        writes = request.method != "GET"
        match kind:
            case ServerFaultKind.OVERLOAD:
                return overloaded(retry_after=self._timeline.random.choice([0, 1]))
            case ServerFaultKind.FAILURES:
                return failed()
            case ServerFaultKind.SLOW:
                return DelayAnswer(self._timeline.random.uniform(0.1, LONGEST_ANSWER))
            case ServerFaultKind.ANSWERS_LOST if writes:
                return LoseAnswer()
            case ServerFaultKind.REQUESTS_LOST:
                return LoseRequest()
            case ServerFaultKind.WATCHES_CUT if "watch" in request.query:
                return CutStream(self._timeline.random.randrange(3))
            case _:
                return None
