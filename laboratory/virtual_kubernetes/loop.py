"""A virtual loop whose coroutines may connect to who listens in the same run."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from laboratory.simulation.process import Process, Reply
from laboratory.simulation.virtual_loop import VirtualLoop
from laboratory.virtual_kubernetes.connections import Address, Network, Transport

P = TypeVar("P", bound=asyncio.BaseProtocol)


class ConnectingLoop(VirtualLoop):
    """Connects by ``create_connection``, also in two steps by way of a socket, as aiohttp does. The
    socket is never used: bytes go through the run's network."""

    def __init__(self, process: Process, network: Network, *, seed: int) -> None:
        super().__init__(process, seed=seed)
        self._network = network
        self._connected: dict[int, Transport] = {}
        """File descriptor of a socket -> the connection that stands for it."""

    async def _connect(self, address: Address) -> Transport:
        reply: Reply[Transport] = Reply()

        def opened(transport: Transport | None) -> None:
            if transport is None:
                reply.fail(ConnectionRefusedError(f"nobody listens at {address}"))
            else:
                reply.give(transport)

        self._network.connect(address, self._process, self, opened)
        return await reply

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self._connected[sock.fileno()] = await self._connect((address[0], address[1]))

    async def create_connection(  # type: ignore[override]  # what is asked of it here, of many forms
        self,
        protocol_factory: Callable[[], P],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: socket.socket | None = None,
        server_hostname: str | None = None,
    ) -> tuple[Transport, P]:
        if ssl:
            raise NotImplementedError("TLS in a seeded run")
        if sock is None:
            assert host is not None and port is not None
            transport = await self._connect((host, port))
        else:
            transport = self._connected.pop(sock.fileno())
            sock.close()
        protocol = protocol_factory()
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        return transport, protocol


def connecting_loop(process: Process, network: Network, *, seed: int) -> ConnectingLoop:
    # Abstract to the type checker; what is not here raises when it is called.
    return ConnectingLoop(process, network, seed=seed)  # type: ignore[abstract]
