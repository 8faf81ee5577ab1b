"""Kinds of faults, and which request meets one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """The server is not asked; this code is the answer. 429 is what its priority and fairness says
    to a client that asks too much."""

    code: int
    retry_after: int | None = None
    message: str = "a fault of the test"


@dataclass(frozen=True, slots=True)
class LoseRequest:
    """The connection is reset before the server hears of it."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The server does what is asked; the connection is reset in the place of the answer."""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """The server is asked once ``released`` is set, also where the client gave up meanwhile."""

    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """The server is asked at once; its answer waits until ``released`` is set."""

    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class CutStream:
    """Reset a watch's connection in the middle of the event after this many."""

    events: int = 0


Effect = Answer | LoseRequest | LoseAnswer | HoldRequest | HoldAnswer | CutStream


@dataclass(slots=True)
class Fault:
    """``times`` requests of a method whose path contains ``part`` meet the effect."""

    effect: Effect
    method: str
    part: str
    times: int
    watches: bool
    """Whether it is about watches alone or about everything else."""
    met: int = 0

    def meets(self, method: str, path: str, *, watch: bool) -> bool:
        return (
            self.met < self.times
            and self.watches == watch
            and method == self.method
            and self.part in path
        )
