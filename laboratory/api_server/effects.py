"""Faults of a server, or of the network before it, that one request meets."""

from __future__ import annotations

from dataclasses import dataclass

from laboratory.api_server.answers import Answer, Refused


@dataclass(frozen=True, slots=True)
class LoseRequest:
    """The connection is reset before the server hears of it."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The server does what is asked; the connection is reset in the place of the answer."""


@dataclass(frozen=True, slots=True)
class DelayRequest:
    """The server hears of it after so many seconds, also where its client is gone by then."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DelayAnswer:
    """The server does what is asked at once, and says so after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CutStream:
    """Of a watch, so many events pass; in the middle of the next one the connection is reset."""

    events: int = 0


Effect = Answer | LoseRequest | LoseAnswer | DelayRequest | DelayAnswer | CutStream


def overloaded(retry_after: int = 0) -> Answer:
    """What priority and fairness say to a client that asks too much."""
    message = "The server is currently unable to handle the request"
    return Refused(429, "TooManyRequests", message, retry_after=retry_after).answer()


def failed() -> Answer:
    return Refused(500, "InternalError", "Internal error occurred: etcdserver: timeout").answer()
