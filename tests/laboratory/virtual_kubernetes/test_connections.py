"""Connections in virtual time: in order, whole or reset, and gone with their process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from laboratory.simulation.process import Process
from laboratory.simulation.virtual_time import CALM, START, Timeline
from laboratory.virtual_kubernetes.connections import Network
from laboratory.virtual_kubernetes.loop import connecting_loop

ADDRESS = ("10.0.0.9", 80)


class Listening(asyncio.Protocol):
    """Notes what it is told; with ``echo`` it says it back."""

    def __init__(self, *, echo: bool = False) -> None:
        self.heard: list[str] = []
        self.transport: asyncio.Transport | None = None
        self._echo = echo

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.append(data.decode())
        if self._echo and self.transport is not None:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("closed" if exc is None else "reset")


class Pair:
    """Two processes, one of which listens."""

    def __init__(self) -> None:
        self.timeline = Timeline(1, CALM)
        self.network = Network(self.timeline, mean_seconds=0.01)
        self.serving, self.asking = Process(self.timeline), Process(self.timeline)
        self.near, self.far = Listening(), Listening(echo=True)
        loop = connecting_loop(self.serving, self.network, seed=1)
        self.network.listen(ADDRESS, self.serving, loop, lambda: self.far)
        self.transport: asyncio.Transport | None = None
        self.refused = False
        asking = connecting_loop(self.asking, self.network, seed=2)
        asking.start(self._connect(asking.create_connection))
        self.run(1.0)

    async def _connect(self, create: Callable[..., object]) -> None:
        connected = create(lambda: self.near, *ADDRESS)
        try:
            self.transport, _ = await connected  # type: ignore[misc]
        except ConnectionRefusedError:
            self.refused = True

    def run(self, until: float) -> None:
        while (due := self.timeline.next_event(START + until)) is not None:
            due[1]()

    def say(self, *words: str) -> None:
        assert self.transport is not None
        for word in words:
            self.transport.write(word.encode())


def test_what_is_written_arrives_in_its_order_and_is_answered() -> None:
    pair = Pair()
    words = [str(number) for number in range(20)]
    pair.say(*words)
    pair.run(2.0)
    assert pair.far.heard == pair.near.heard == words


def test_an_end_that_closes_is_closed_for_the_other_after_what_it_wrote() -> None:
    pair = Pair()
    pair.say("last")
    assert pair.transport is not None
    pair.transport.close()
    pair.run(2.0)
    assert pair.far.heard == ["last", "closed"]
    assert pair.near.heard == ["closed"]  # the answer came to nobody


@pytest.mark.parametrize("by", ["client", "network", "death"])
def test_a_connection_is_reset(by: str) -> None:
    pair = Pair()
    match by:
        case "client":
            assert pair.transport is not None
            pair.transport.abort()
        case "network":
            assert pair.network.reset(lambda end: end.address == ADDRESS) == 1
        case _:
            pair.asking.alive = False
            pair.network.drop(pair.asking)
    pair.run(2.0)
    assert pair.far.heard == ["reset"]
    # Who is dead hears nothing.
    assert pair.near.heard == ([] if by == "death" else ["closed"])


def test_who_does_not_read_gets_it_later() -> None:
    pair = Pair()
    assert pair.far.transport is not None
    pair.far.transport.pause_reading()
    pair.say("a", "b")
    pair.run(2.0)
    assert pair.far.heard == []
    pair.far.transport.resume_reading()
    pair.run(3.0)
    assert pair.far.heard == ["a", "b"]


def test_nobody_connects_to_who_does_not_listen() -> None:
    pair = Pair()
    pair.network.close(ADDRESS)
    loop = connecting_loop(pair.asking, pair.network, seed=3)
    loop.start(pair._connect(loop.create_connection))
    pair.run(2.0)
    assert pair.refused


def test_a_process_that_stands_still_hears_it_afterwards() -> None:
    pair = Pair()
    pair.serving.pause(5.0)
    pair.say("a")
    pair.run(5.0)
    assert pair.far.heard == []
    pair.run(7.0)
    assert pair.far.heard == ["a"]
