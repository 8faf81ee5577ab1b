"""The Lease on the API server: one ledger has it, and another gets it when that one is silent."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from coordinator.cluster.kubernetes.api.pool import HttpAnswer
from coordinator.cluster.kubernetes.writes.cluster_lease import (
    DURATION_SECONDS,
    ClusterLease,
    ClusterLeases,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holder:
    """A Quadrant by this ledger, and what it knows of the lease."""

    lease: ClusterLease
    ledger: str

    @property
    def held(self) -> bool:
        return self.lease.held

    @property
    def why(self) -> str:
        return self.lease.why

    async def look(self) -> None:
        await self.lease.look(self.ledger)


class OneLease:
    """An API server that has one Lease; ``away`` while it does not answer."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.now = 100.0
        self.version = 0
        self.away = False
        self.code = 0
        """The status of an answer in place of the server's own; 0 for none."""

    def of(self, holder: str) -> Holder:
        return Holder(ClusterLease(self, "quadrant", clock=lambda: self.now), holder)

    async def claim(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        if self.away:
            return None
        if method == "GET":
            http_answer = HttpAnswer(HTTPStatus.OK, msgspec.json.encode(self.lease))
            return http_answer if self.lease else HttpAnswer(HTTPStatus.NOT_FOUND, b"{}")
        if self.code:
            status = {"code": self.code, "message": "leases is forbidden"}
            return HttpAnswer(self.code, msgspec.json.encode(status))
        fields, before = msgspec.json.decode(body), self.lease or {"metadata": {}, "spec": {}}
        expected = fields["metadata"].get("resourceVersion") if "metadata" in fields else None
        if expected not in (None, before["metadata"].get("resourceVersion")):
            return HttpAnswer(HTTPStatus.CONFLICT, b"{}")
        self.version += 1
        metadata = before["metadata"] | fields.get("metadata", {})
        metadata["resourceVersion"] = str(self.version)
        self.lease = {"metadata": metadata, "spec": before["spec"] | fields["spec"]}
        return HttpAnswer(HTTPStatus.OK if method == "PATCH" else HTTPStatus.CREATED, b"{}")


async def test_the_first_ledger_holds_the_lease_and_shares_it_with_its_successor() -> None:
    server = OneLease()
    first, other, successor = server.of("a"), server.of("b"), server.of("a")
    for lease in (first, other, successor):
        await lease.look()
    assert (first.held, other.held, successor.held) == (True, False, True)
    assert other.lease.other == "a"
    assert "ledger a" in other.why


async def test_a_lease_ends_without_renewals_by_the_waiters_clock() -> None:
    server = OneLease()
    first, other = server.of("a"), server.of("b")
    await first.look()
    for _ in range(10):  # renewed in time, whatever hour the other machine has
        server.now += DURATION_SECONDS / 2
        await first.look()
        await other.look()
        assert (first.held, other.held) == (True, False)
    server.now += DURATION_SECONDS - 1
    await other.look()
    assert (first.held, other.held) == (True, False)
    server.now += 2
    await other.look()
    assert (first.held, other.held) == (False, True)
    await first.look()
    assert not first.held, "who wakes late finds the other"


async def test_a_server_that_is_away_leaves_it_until_its_time_is_over() -> None:
    server = OneLease()
    lease = server.of("a")
    await lease.look()
    server.away = True
    server.now += DURATION_SECONDS - 1
    await lease.look()
    assert lease.held
    server.now += 2
    assert (lease.held, server.away) == (False, True)
    assert "does not answer" in lease.why
    server.away = False
    await lease.look()
    assert lease.held
    assert lease.why == ""


async def test_a_forbidden_lease_is_not_held_and_names_the_reason() -> None:
    server = OneLease()
    server.code = HTTPStatus.FORBIDDEN
    lease = server.of("a")
    await lease.look()
    assert not lease.held
    assert "forbidden" in lease.why


async def test_given_up_in_order_it_is_free() -> None:
    server = OneLease()
    first, other = server.of("a"), server.of("b")
    await first.look()
    await first.lease.release()
    assert [lease.held for lease in (first, other)] == [False, False]
    await other.look()
    assert other.held


async def test_only_one_of_two_takes_a_free_lease() -> None:
    server = OneLease()
    first, other = server.of("a"), server.of("b")
    await first.look()
    await first.lease.release()
    observed = server.lease
    await other.look()
    assert observed is not None
    answer = await first.lease._take(observed)
    assert answer is not None
    assert answer.code == HTTPStatus.CONFLICT


async def test_several_scheduler_names_need_a_lease_each() -> None:
    names = ClusterLeases(OneLease(), {"quadrant", "volcano"})
    assert [lease.name for lease in names.each] == ["quadrant-quadrant", "quadrant-volcano"]
    await names.each[0].look("a")
    assert not names.held
    assert names.why == names.each[1].why
    await names.each[1].look("a")
    assert (names.held, names.why) == (True, "")


def test_without_a_name_nothing_is_waited_for() -> None:
    names = ClusterLeases(OneLease(), set())
    assert (names.held, names.why) == (True, "")


async def test_the_previous_ledger_is_remembered_until_it_is_settled() -> None:
    server = OneLease()
    first, other, successor = server.of("a"), server.of("b"), server.of("b")
    await first.look()
    assert first.lease.before == ""
    await first.lease.release()
    for lease in (other, successor, other):
        await lease.look()
        assert lease.held
        assert lease.lease.before == "a", "also once it was given up, and for who comes later"
    other.lease.settle("a")
    for lease in (other, other, server.of("b")):
        await lease.look()
        assert lease.lease.before == ""
