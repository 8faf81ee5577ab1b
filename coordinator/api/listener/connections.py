"""How many connections may be open, and which of them have to give way. Pure bookkeeping.

A connection is *waiting* while the client owes something: its first byte, the rest of a request's
head, the rest of a body, or its next request. All others have a complete request that is being
answered. Where a bound is reached, one that waits makes room for the new one, so that connections
which ask for nothing never keep out one that does (decision 0043).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

C = TypeVar("C")

MOST_OF_ADDRESS = 256
"""Connections of one client address: twice the watches of one server, which are the longest."""

_IPV6_PREFIX = 64
"""One IPv6 host usually has a whole /64 to itself, so single addresses would bound nothing."""


class WaitingFor(Enum):
    """What a connection waits for from its client, in the order in which connections are closed
    when there are too many: first those that never sent a complete request, last those that an
    honest client may use again."""

    BYTE = "its first byte"
    HEAD = "the rest of the head of its request"
    BODY = "the rest of the body of its request"
    REQUEST = "its next request"


DEADLINES = {WaitingFor.BYTE: 10.0, WaitingFor.HEAD: 10.0, WaitingFor.BODY: 40.0}
"""Seconds that a client may take. Ten for a head: nginx takes 60, Kubernetes' own server 32, and a
head is one packet. Those who read bodies give up first, after 20 s, with an answer that says so; 40
is for the requests whose body nobody reads. Idle connections end by the library's own timer."""


GRACE_SECONDS = 1.0
"""A state counts against a connection only after so long. Otherwise a flood of new connections
would close the one that was opened last, before its client could send anything."""


class TooManyConnections(Exception):
    """No connection can give way: all of them have requests that are being answered."""


class Connections(Generic[C]):
    """``most``: connections in all. ``uncounted`` tells the addresses without a bound of their
    own: this machine's, and those of proxies, behind which there are many clients."""

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
        """Every connection; "" for those of no counted address."""
        self._of_address: dict[str, dict[C, None]] = {}
        self._state: dict[C, WaitingFor] = {}
        self._since: dict[WaitingFor, dict[C, float]] = {state: {} for state in WaitingFor}
        """Every waiting connection by what is owed, the one that has waited longest first."""

    def __len__(self) -> int:
        return len(self._address)

    def make_room(self, address: str, now: float) -> C | None:
        """The connection to be closed so that ``address`` may open one more; None = there is room.

        Raises TooManyConnections."""
        group = self._group(address)
        of_group = self._of_address.get(group, {}) if group else {}
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
        """The first of all to give way; None = every connection is being answered."""
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
        """Some bytes came."""
        if self._state.get(connection) in (WaitingFor.BYTE, WaitingFor.REQUEST):
            self._wait(connection, WaitingFor.HEAD, now)

    def head_received(self, connection: C, now: float) -> None:
        """A head is complete, its body is not."""
        self._wait(connection, WaitingFor.BODY, now)

    def body_received(self, connection: C) -> None:
        """The rest of a body came; it is of no interest where the request was answered before."""
        if self._state.get(connection) is WaitingFor.BODY:
            self.request_received(connection)

    def request_received(self, connection: C) -> None:
        """The whole request came: from now on the client waits for us."""
        if (state := self._state.pop(connection, None)) is not None:
            del self._since[state][connection]

    def answered(self, connection: C, now: float) -> None:
        self._wait(connection, WaitingFor.REQUEST, now)

    def closed(self, connection: C) -> None:
        """Forget it. Any number of times."""
        self.request_received(connection)
        group = self._address.pop(connection, "")
        if group:
            of_group = self._of_address[group]
            del of_group[connection]
            if not of_group:
                del self._of_address[group]

    def overdue(self, now: float) -> list[tuple[C, WaitingFor]]:
        """The connections whose deadline is over, with what they owe."""
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
        """The address that is counted: an IPv6 network, an IPv4 address; "" = not counted."""
        if self._uncounted(address):
            return ""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return ""
        if isinstance(parsed, ipaddress.IPv6Address):
            if parsed.ipv4_mapped is not None:
                return str(parsed.ipv4_mapped)
            return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
        return str(parsed)


def _first_to_go(fronts: Sequence[tuple[WaitingFor, C, float]], now: float) -> C | None:
    """The connection to close: the first, in the order of states, that has waited for the grace
    time, else the one that has waited longest."""
    for _, connection, since in fronts:
        if now - since >= GRACE_SECONDS:
            return connection
    return min(fronts, key=lambda front: front[2])[1] if fronts else None
