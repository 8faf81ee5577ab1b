"""Who listens where, and what is under way between two ends of a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from laboratory.simulation.process import Process
from laboratory.simulation.virtual_time import Timeline

Address = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]

_EOF, _RESET = "end", "reset"
"""What arrives in the place of bytes."""


@dataclass(slots=True)
class Listener:
    process: Process
    loop: asyncio.AbstractEventLoop
    factory: Factory


class Network:
    def __init__(self, timeline: Timeline, *, mean_seconds: float) -> None:
        """``mean_seconds``: how long bytes take, drawn for each write."""
        self.timeline = timeline
        self.connections = 0
        """How many were opened so far."""
        self._mean = mean_seconds
        self._listeners: dict[Address, Listener] = {}
        self._open: dict[Transport, None] = {}
        """Ends, in the order in which they were opened."""

    def listen(
        self,
        address: Address,
        process: Process,
        loop: asyncio.AbstractEventLoop,
        factory: Factory,
    ) -> None:
        self._listeners[address] = Listener(process, loop, factory)

    def close(self, address: Address) -> None:
        """Nobody listens there any more; connections stay open."""
        self._listeners.pop(address, None)

    def drop(self, process: Process) -> None:
        """The process is gone: its machine resets its connections."""
        for end in [end for end in self._open if end.process is process]:
            end.drop()

    def reset(self, chosen: Callable[[Transport], bool]) -> int:
        """Reset connections, seen from the ends of those who connected. How many those were."""
        ends = [end for end in self._open if end.connected and chosen(end)]
        for end in ends:
            end.abort()
        return len(ends)

    # --- one connection -------------------------------------------------------------------------

    def delay(self) -> float:
        return self.timeline.random.expovariate(1 / self._mean)

    def connect(
        self,
        address: Address,
        process: Process,
        loop: asyncio.AbstractEventLoop,
        opened: Callable[[Transport | None], None],
    ) -> None:
        """``opened`` gets the near end, or None where nobody listens; at the far end a protocol is
        made meanwhile."""

        def arrive() -> None:
            listener = self._listeners.get(address)
            if listener is None or not listener.process.alive:
                process.after(self.delay(), lambda: opened(None), "refused")
                return
            self.connections += 1
            near = Transport(self, process, loop, address, connected=True)
            far = Transport(self, listener.process, listener.loop, address, connected=False)
            near.peer, far.peer = far, near
            self._open |= {near: None, far: None}
            protocol = listener.factory()
            far.set_protocol(protocol)
            listener.loop.call_soon(protocol.connection_made, far)
            process.after(self.delay(), lambda: opened(near), "connected")

        process.say(self._mean, arrive, "connect")

    def closed(self, end: Transport) -> None:
        self._open.pop(end, None)


class Transport(asyncio.Transport):
    """One end. What it writes arrives in its order; the other end reads as fast as it likes."""

    def __init__(
        self,
        network: Network,
        process: Process,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        *,
        connected: bool,
    ) -> None:
        """``connected``: whether this is the end of who connected, to ``address``."""
        super().__init__(extra={"peername": address})
        self.process, self.address, self.connected = process, address, connected
        self.peer: Transport | None = None
        self._network, self._loop = network, loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._closing = False
        self._reading = True
        self._giving = False
        self._arrived: deque[bytes | str] = deque()
        """What the protocol was not given yet, while it does not read."""
        self._under_way: deque[bytes | str] = deque()
        self._last_at = 0.0

    # --- writing --------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data:
            self.deliver(bytes(data))

    def deliver(self, part: bytes | str) -> None:
        """Send something to the other end."""
        peer, timeline = self.peer, self._network.timeline
        assert peer is not None
        peer._under_way.append(part)
        at = max(self._last_at, timeline.now + self._network.delay())
        self._last_at = at
        # The peer's timer: it waits where that process stands still, and is void where it is dead.
        peer.process.after(at - timeline.now, peer._arrive, "bytes")

    def close(self) -> None:
        self._end(_EOF, None)

    def abort(self) -> None:
        self._end(_RESET, None)

    def drop(self) -> None:
        """Its process is dead: whatever its objects still ask of it has no effect."""
        if not self._closing:
            self._closing = True
            self._network.closed(self)
            self._protocol = None
            self.deliver(_RESET)

    def _end(self, part: str, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self.deliver(part)
        self._lost(error)

    def _lost(self, error: Exception | None) -> None:
        self._network.closed(self)
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            self._loop.call_soon(protocol.connection_lost, error)

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0  # the network takes everything at once

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    # --- reading --------------------------------------------------------------------------------

    def _arrive(self) -> None:
        self._arrived.append(self._under_way.popleft())
        self._give()

    def _give(self) -> None:
        if not self._giving and self._arrived:
            self._giving = True
            self._loop.call_soon(self._give_next)

    def _give_next(self) -> None:
        """One part in each turn of the loop, as a selector has it: who waits for the part wakes
        before the protocol gets the next one."""
        self._giving = False
        if not self._arrived or not self._reading or self._closing:
            return
        match self._arrived.popleft():
            case bytes() as data:
                assert isinstance(self._protocol, asyncio.Protocol)
                self._protocol.data_received(data)
                self._give()
            case end:
                self._closing = True
                self._lost(ConnectionResetError("reset by peer") if end == _RESET else None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._give()

    def is_reading(self) -> bool:
        return self._reading

    # --- protocol -------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._give()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return super().get_extra_info(name, default)
