"""Leases on the API server: of Quadrants with ledgers of their own, one writes to a cluster.

Which coordinator leads the ledger says. Which ledger the cluster goes by this says: without it two
Quadrants would each believe in their own books and give the same room away, and no API server looks
whether a node has room. There is one for each scheduler's name: who has other names may write
beside us. The holder is a ledger's id, so that a successor by the same ledger writes at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Set
from http import HTTPStatus
from typing import Protocol

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.api.pool import JSON, MERGE_PATCH, HttpAnswer
from coordinator.cluster.kubernetes.writes.patch import Json
from shared.settings.cluster import ALL_SCHEDULERS
from shared.units.times import rfc3339

NAMESPACE = "kube-system"
"""Where the leases of Kubernetes' own schedulers are: one for the cluster, wherever we run."""
DURATION_SECONDS = 15.0
"""After as long without a renewal it is free: kube-scheduler's time."""
RENEW_SECONDS = 4.0
LOOK_SECONDS = 1.0
"""Interval of looks while another has it, or nobody answers."""
RAN_OUT = "the Lease of the cluster ran out"

LEDGER = "quadrant.dev/ledger"
"""Annotation: the ledger whose bindings may be on their way. It stays when the Lease is given
up."""

_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_DONE = (HTTPStatus.OK, HTTPStatus.CREATED)

log = structlog.get_logger(__name__)


class LeaseServer(Protocol):
    async def claim(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """A request that the Lease is not asked for; None where there is no answer."""
        ...


class ClusterLeases:
    """All of them, or none: a pod may have any of the names."""

    def __init__(
        self,
        server: LeaseServer,
        schedulers: Set[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``schedulers``: the names of schedulers that are ours."""
        self.each = [ClusterLease(server, name, clock=clock) for name in sorted(schedulers)]

    @property
    def held(self) -> bool:
        return self.remaining() > 0

    def remaining(self) -> float:
        """Seconds until the first of them runs out; 0 where one is not held.

        Without end where no name is ours: then nobody is kept apart.
        """
        return max(0.0, min((lease.remaining() for lease in self.each), default=math.inf))

    @property
    def before(self) -> str:
        """The ledger whose bindings may be on their way still; "" for none."""
        return next((lease.before for lease in self.each if lease.before), "")

    @property
    def why(self) -> str:
        """Why they are not held; "" where they are."""
        return next((lease.why or RAN_OUT for lease in self.each if not lease.held), "")

    async def keep_forever(self, holder: str) -> None:
        """Take and renew them for ``holder``, a ledger."""
        while True:
            for lease in self.each:
                await lease.look(holder)
                if not lease.held:  # the next one might be what its holder waits for
                    break
            await asyncio.sleep(RENEW_SECONDS if self.held else LOOK_SECONDS)

    def settle(self, ledger: str) -> None:
        """Nothing that this ledger sent can take effect any more."""
        for lease in self.each:
            lease.settle(ledger)

    async def release(self) -> None:
        """In an orderly end: another ledger need not wait."""
        for lease in self.each:
            await lease.release()


class ClusterLease:
    def __init__(
        self,
        server: LeaseServer,
        scheduler: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"quadrant-{scheduler}".replace(ALL_SCHEDULERS, "all")
        self.other = ""
        """Present holder, where another process has it."""
        self.before = ""
        """The ledger that had it last, where that is not ours: what it sent may be on its way."""
        self._void = ""
        self.why = "nobody has answered yet"
        """Why we do not have it."""
        self._server, self._clock = server, clock
        self._holder = ""
        """The ledger for which it was looked at."""
        self._until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        """Version of another's lease, and since when it has been that."""

    @property
    def path(self) -> str:
        return f"{_LEASES}/{self.name}"

    @property
    def held(self) -> bool:
        return self.remaining() > 0

    def remaining(self) -> float:
        return self._until - self._clock()

    async def look(self, holder: str) -> None:
        """Take or renew it for this ledger, where nobody else has it."""
        self._holder, sent = holder, self._clock()
        answer = await self._server.claim("GET", self.path, b"", JSON)
        if answer is not None and answer.code == HTTPStatus.OK:
            lease: Json = msgspec.json.decode(answer.body)
            if self._is_anothers(lease):
                return
            last = (lease["metadata"].get("annotations") or {}).get(LEDGER, "")
            if last not in ("", holder, self._void):
                self.before = last
            answer = await self._take(lease)
        elif answer is not None and answer.code == HTTPStatus.NOT_FOUND:
            answer = await self._create()
        if answer is None:
            self._missed("the API server does not answer")
        elif answer.code in _DONE:
            self._have(sent + DURATION_SECONDS)
        elif answer.code != HTTPStatus.CONFLICT:  # who was quicker is seen by the next look
            self._missed(status_of(answer.body, answer.code).message)

    def settle(self, ledger: str) -> None:
        """Nothing that this ledger sent can take effect any more."""
        if self.before == ledger:
            self.before, self._void = "", ledger

    async def release(self) -> None:
        """In an orderly end: another ledger need not wait."""
        if not self.held:
            return
        self._until = 0.0
        body = msgspec.json.encode({"spec": {"holderIdentity": ""}})
        await self._server.claim("PATCH", self.path, body, MERGE_PATCH)

    # --- one look -------------------------------------------------------------------------------

    def _is_anothers(self, found: Json) -> bool:
        """By our own clock: what a lease says of times is of another machine's."""
        theirs, version = found["spec"].get("holderIdentity", ""), _version(found)
        if theirs in ("", self._holder):
            return False
        if self._seen[0] != version:
            self._seen = version, self._clock()
        if self._clock() - self._seen[1] > DURATION_SECONDS:
            return False
        if self.other != theirs:
            log.warning("Another Quadrant schedules this cluster", lease=self.name, ledger=theirs)
        self.other, self._until = theirs, 0.0
        self.why = f"the Quadrant of ledger {theirs} schedules this cluster (Lease {self.name})"
        return True

    async def _create(self) -> HttpAnswer | None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": NAMESPACE}
            | {"annotations": {LEDGER: self._holder}},
            "spec": self._spec(),
        }
        return await self._server.claim("POST", _LEASES, msgspec.json.encode(lease), JSON)

    async def _take(self, found: Json) -> HttpAnswer | None:
        # Until what the one before sent is void, a successor of ours has to know of it.
        ledger = self.before or self._holder
        metadata = {"resourceVersion": _version(found), "annotations": {LEDGER: ledger}}
        body = {"metadata": metadata, "spec": self._spec()}
        return await self._server.claim("PATCH", self.path, msgspec.json.encode(body), MERGE_PATCH)

    def _spec(self) -> Json:
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": int(DURATION_SECONDS),
            "renewTime": rfc3339(time.time(), "microseconds"),
        }

    def _have(self, until: float) -> None:
        if not self.held:
            log.info("This Quadrant schedules the cluster", lease=self.name, ledger=self._holder)
        self.other, self.why, self._until = "", "", until

    def _missed(self, why: str) -> None:
        """Log the failure once. A held lease stays held until it expires."""
        if self.why != why:
            log.warning("Cannot take the Lease of the cluster", lease=self.name, why=why)
        self.why = why


def _version(lease: Json) -> str:
    return str(lease["metadata"]["resourceVersion"])
