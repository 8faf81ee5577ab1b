"""The limits on open connections, and the choice of those to close. Pure bookkeeping.

A connection is *waiting* while the client owes something: its first byte, the rest of a request's
head or body, or its next request. All others have a complete request that is being answered. At a
limit, a waiting connection is closed for a new one, so that connections without a request never
keep out one with a request (decision 0043).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

C = TypeVar("C")

MOST_OF_ADDRESS = 256
"""Maximum connections per client address: twice the maximum watches of a server, the longest
requests."""

_IPV6_PREFIX = 64
"""One IPv6 host usually has a whole /64 to itself, so single addresses would bound nothing."""


class WaitingFor(Enum):
    """The input that a connection waits for from its client. In order of closing: first connections
    that never sent a complete request, last those that a client may reuse."""

    BYTE = "its first byte"
    HEAD = "the rest of the head of its request"
    BODY = "the rest of the body of its request"
    REQUEST = "its next request"


DEADLINES = {WaitingFor.BYTE: 10.0, WaitingFor.HEAD: 10.0, WaitingFor.BODY: 40.0}
"""Maximum seconds for the client, per state.

10 for a head, which is one packet: nginx allows 60, Kubernetes' server 32. Handlers that read
bodies time out first, after 20 s with an error answer; 40 is for bodies that no handler reads. Idle
connections are closed by aiohttp's own timer.
"""


GRACE_SECONDS = 1.0
"""A state counts against a connection only after this time. Otherwise a flood of new connections
would close the newest before its client could send anything."""


class TooManyConnections(Exception):
    """No connection can be closed for a new one: all have requests that are being answered."""


class Connections(Generic[C]):
    """The book of connections. ``most``: the total limit. ``uncounted`` tests for addresses without
    a limit of their own: this machine's, and those of proxies, which carry many clients."""

    def __init__(
        self,
        *,
        most: int,
        most_of_address: int = MOST_OF_ADDRESS,
        uncounted: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self.most = most
        self._most_of_address = most_of_address
        self._uncounted = uncounted
        self._address: dict[C, str] = {}
        """Every connection -> its address; "" for addresses that are not counted."""
        self._of_address: dict[str, dict[C, None]] = {}
        self._state: dict[C, WaitingFor] = {}
        self._since: dict[WaitingFor, dict[C, float]] = {state: {} for state in WaitingFor}
        """Waiting connections per state, the one that has waited longest first."""

    def __len__(self) -> int:
        return len(self._address)

    def make_room(self, address: str, now: float) -> C | None:
        """The connection to close so that ``address`` may open one more; None = there is room.
        Raises TooManyConnections."""
        group = self._group(address)
        of_group = self._of_address.get(group, {}) if group else {}
        # The address first: one that is at its own bound pays with its own connections, not with
        # those of others.
        if len(of_group) >= self._most_of_address:
            # at most as many as one address may have, so looking at each of them is cheap
            fronts = [(s, c, self._since[s][c]) for c in of_group if (s := self._state.get(c))]
            order = list(WaitingFor)
            fronts.sort(key=lambda front: (order.index(front[0]), front[2]))
            longest = _first_to_go(fronts, now)
        elif len(self._address) >= self.most:
            longest = self.longest_waiting(now)
        else:
            return None
        if longest is None:
            raise TooManyConnections
        return longest

    def longest_waiting(self, now: float) -> C | None:
        """The first connection to close; None = all are being answered."""
        fronts = [
            (s, *next(iter(waiting.items()))) for s, waiting in self._since.items() if waiting
        ]
        return _first_to_go(fronts, now)

    def opened(self, connection: C, address: str, now: float) -> None:
        group = self._group(address)
        self._address[connection] = group
        if group:
            self._of_address.setdefault(group, {})[connection] = None
        self._wait(connection, WaitingFor.BYTE, now)

    def received(self, connection: C, now: float) -> None:
        """Note that some bytes came."""
        if self._state.get(connection) in (WaitingFor.BYTE, WaitingFor.REQUEST):
            self._wait(connection, WaitingFor.HEAD, now)

    def head_received(self, connection: C, now: float) -> None:
        """Note that a head is complete and its body is not."""
        self._wait(connection, WaitingFor.BODY, now)

    def body_received(self, connection: C) -> None:
        """Note that the body is complete. Has no effect if the request was already answered."""
        if self._state.get(connection) is WaitingFor.BODY:
            self.request_received(connection)

    def request_received(self, connection: C) -> None:
        """Note that the request is complete: from now on the client waits for the server."""
        if (state := self._state.pop(connection, None)) is not None:
            del self._since[state][connection]

    def answered(self, connection: C, now: float) -> None:
        self._wait(connection, WaitingFor.REQUEST, now)

    def closed(self, connection: C) -> None:
        """Forget the connection; may be repeated."""
        self.request_received(connection)
        group = self._address.pop(connection, "")
        if group:
            of_group = self._of_address[group]
            del of_group[connection]
            if not of_group:
                del self._of_address[group]

    def overdue(self, now: float) -> list[tuple[C, WaitingFor]]:
        """The connections past their deadline, with what they wait for."""
        overdue: list[tuple[C, WaitingFor]] = []
        for state, seconds in DEADLINES.items():
            for connection, since in self._since[state].items():
                if now - since < seconds:
                    break  # in order: all behind it came later
                overdue.append((connection, state))
        return overdue

    def _wait(self, connection: C, state: WaitingFor, now: float) -> None:
        if connection not in self._address:
            return  # it was closed while its request was being answered
        self.request_received(connection)
        self._state[connection] = state
        self._since[state][connection] = now

    def _group(self, address: str) -> str:
        """The counted address: an IPv4 address or an IPv6 network; "" = not counted."""
        if self._uncounted(address):
            return ""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return ""
        if isinstance(parsed, ipaddress.IPv6Address):
            # On a socket for both families an IPv4 client appears so; by its /64 all of them would
            # be one.
            if parsed.ipv4_mapped is not None:
                return str(parsed.ipv4_mapped)
            return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
        return str(parsed)


def _first_to_go(fronts: Sequence[tuple[WaitingFor, C, float]], now: float) -> C | None:
    """The connection to close: by order of states one that has waited at least the grace time, else
    the one that has waited longest."""
    for _, connection, since in fronts:
        if now - since >= GRACE_SECONDS:
            return connection
    return min(fronts, key=lambda front: front[2])[1] if fronts else None
