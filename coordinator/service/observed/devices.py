"""Devices of ResourceClaims on a Kubernetes cluster.

Chosen as for a cluster of ours, by the claims as the books have them, and written into the claims'
status on the API server, each for the version that it was chosen by. What was written is in the
books before anybody else chooses: the server does not look whether two claims have one device.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from coordinator.bind.binder import BindPlan
from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.api.objects import version_number
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.patch import ObjectServer, Patched, PatchOutcome, patch
from coordinator.controllers.device_books import CLAIM, DeviceUser, users_of
from coordinator.controllers.device_claims import AppliesWork
from coordinator.controllers.device_controller import DeviceController
from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from coordinator.jobs.state import SchedulingStatus
from coordinator.ledger_refusals import StoreRefused
from shared.messages.messages import HOLDING
from shared.model.model import Job
from shared.slices import Steps, in_slices

Json = dict[str, Any]

TRIES = 3
"""Choices for one task in one call: its claims may change between the choice and the write."""
AGAIN_SECONDS = 0.2
"""Pause before the API server, or the ledger, is asked again."""
LOOK_SECONDS = 1.0
"""Interval of looks for claims that name a pod of ours without a place."""
PROTECTED = "resource.kubernetes.io/delete-protection"
"""A claim with devices is not deleted before they are given back: kube-scheduler sets this
finalizer, and the claim controller takes it off."""
CHANGING = "its resourceclaim changed while devices were chosen"

log = structlog.get_logger(__name__)


class ApiDevices:
    def __init__(
        self,
        core: Coordinator,
        intake: Intake,
        writer: AppliesWork,
        *,
        mirror: Mirror,
        server: ObjectServer,
    ) -> None:
        self._core = core
        self._intake = intake
        self._writer = writer
        self._mirror = mirror
        self._server = server
        self._controller = DeviceController(core, intake, pod_uid=self._pod_uid)
        # From a choice until the books have it: two choices at once could take one device.
        self._choosing = asyncio.Lock()
        self._users: dict[Key, tuple[int, list[Json]]] = {}
        """Claim -> (version of its document, its users)."""

    def _pod_uid(self, job: Job, tix: int) -> str:
        row = self._mirror.pods.of_task((job.jid, tix))
        return "" if row is None else row.uid

    # --- before the bind ------------------------------------------------------------------------

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        """Why tasks cannot have the devices that they claim, by position in the plan."""
        failures: dict[int, str] = {}
        users = self._controller.users(plan)
        if not users:
            return failures
        async with self._choosing:
            for _ in range(TRIES):
                users = await self._serve(users, failures)
                if not users:
                    return failures
        return failures | {user.at: CHANGING for user in users}

    async def _serve(
        self, users: Sequence[DeviceUser], failures: dict[int, str]
    ) -> list[DeviceUser]:
        """Write what these users get; returns those for whom it has to be chosen anew."""
        items = self._controller.served(users, failures)
        results = await self._write_all(items)
        anew: list[DeviceUser] = []
        for user in users:
            mine = [results[key] for key in _claims_of(user) if key in results]
            refused = [
                results_of_user.message
                for results_of_user in mine
                if results_of_user.outcome is PatchOutcome.REFUSED
            ]
            if refused and user.at not in failures:
                failures[user.at] = f"the API server refuses it: {refused[0]}"
            elif user.at not in failures and any(
                results_of_user.outcome is not PatchOutcome.DONE for results_of_user in mine
            ):
                anew.append(user)
        return anew

    async def _write_all(self, items: Sequence[Json]) -> dict[str, Patched]:
        """Write these claims, and have the books follow; ``namespace/name`` -> what came of it."""
        results: dict[str, Patched] = {}

        async def one(item: Json, before: Json) -> None:
            results[_key(item)] = await self._write(item, before)

        # Taken before anything is awaited: what these were chosen by.
        documents = self._intake.documents
        befores = [documents[Key(CLAIM, *_key(item).split("/", 1))].object() for item in items]
        async with asyncio.TaskGroup() as group:
            for item, before in zip(items, befores, strict=True):
                group.create_task(one(item, before))
        await self._adopt(
            [
                results_now.written
                for results_now in results.values()
                if results_now.written is not None
            ]
        )
        return results

    async def _write(self, item: Json, before: Json) -> Patched:
        """One claim as it is to be, by steps that each are valid: a claim's devices never change,
        they are given back first. ``before``: as the books have it."""
        status = item.get("status") or {}
        allocation, users = status.get("allocation"), status.get("reservedFor")
        patched = Patched(PatchOutcome.DONE, before)
        for path, fields in _steps(before, allocation, users):
            assert patched.written is not None
            version = patched.written["metadata"]["resourceVersion"]
            patched = await patch(self._server, path, version, fields)
            if patched.outcome is not PatchOutcome.DONE:
                return await self._looked(patched, item["metadata"])
        return patched

    async def _looked(self, done: Patched, meta: Json) -> Patched:
        """The claim as it is now, where a write did not say. Asked for until there is an answer:
        whoever chose in between might take the same devices."""
        while True:
            try:
                return Patched(done.outcome, await self._server.read(_path(meta)), done.message)
            except ApiError as error:
                log.warning("Cannot look at a claim", claim=meta["name"], why=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    # --- the books ------------------------------------------------------------------------------

    async def _adopt(self, claims: Sequence[Json]) -> None:
        while claims:
            try:
                await self._writer.apply(partial(self._adopt_newer, claims))
            except StoreRefused:  # logged and counted
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    def _adopt_newer(self, claims: Sequence[Json], now: float) -> Admission:
        """Admit the claims whose version is newer than the one in intake; the watch has not brought
        them yet, or passed them."""
        newer = []
        for claim in claims:
            meta = claim["metadata"]
            key = ObjectKey(CLAIM, meta["namespace"], meta["name"])
            self._mirror.wrote(key, meta["resourceVersion"])
            document = self._intake.documents.get(Key(*key))
            if document is not None and _version(document.object()) < _version(claim):
                meta.pop("managedFields", None)
                newer.append({"apiVersion": "resource.k8s.io/v1", "kind": CLAIM, **claim})
        return self._intake.admit(newer, now) if newer else Admission()

    # --- after a place is given up --------------------------------------------------------------

    async def free_forever(self) -> None:
        """Take pods of ours that have no place off the claims that name them; nobody else does as
        long as they exist. Of pods that ended the claim controller takes care."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if unused := await in_slices(self._in_vain()):
                async with self._choosing:
                    await self._write_all([i for key in unused if (i := self._freed(key))])

    def _in_vain(self) -> Steps[list[Key]]:
        """Claims that name a pod without a place."""
        unused, known, self._users = [], self._users, {}
        for claim in list(self._core.order.accounts.cluster.objects.claims.values()):
            yield
            key = Key(CLAIM, claim.namespace, claim.name)
            document = self._intake.documents.get(key)
            if not claim.reserved or document is None:
                continue
            users = known.get(key)
            if users is None or users[0] != document.version:  # read once for each version
                users = document.version, users_of(document.object())
            self._users[key] = users
            if any(self._waits(claim.namespace, user) for user in users[1]):
                unused.append(key)
        return unused

    def _freed(self, key: Key) -> Json | None:
        """The claim without the users that wait; without devices where nobody is left. None where
        there is nothing to be changed any more."""
        document = self._intake.documents.get(key)
        item = {} if document is None else document.object()
        users = users_of(item)
        left = [user for user in users if not self._waits(key.namespace, user)]
        if len(left) == len(users):
            return None
        item["status"]["reservedFor"] = left or None
        if not left:
            item["status"]["allocation"] = None
        return item

    def _waits(self, namespace: str, user: Json) -> bool:
        """Whether the user is a pod of ours that has no place, in the cluster or in the books."""
        row = self._mirror.pods.by_key.get((namespace, user.get("name", "")))
        if row is None or user.get("uid") != row.uid or not _is_waiting(row):
            return False
        state = self._core.order.known(row.jid)
        if state is None or state.status is SchedulingStatus.OPEN or state.unread:
            return False  # the outcome of its turn is not known yet
        return state.states[row.tix] not in HOLDING


def _is_waiting(row: PodRow) -> bool:
    return row.ours and row.jid >= 0 and not row.node and not row.ended and not row.leaving


def _steps(
    before: Json, allocation: Json | None, users: list[Json] | None
) -> Iterator[tuple[str, Json]]:
    """(path, fields) of each write that makes of a claim what it is to be."""
    meta, had = before["metadata"], (before.get("status") or {}).get("allocation")
    path = _path(meta)
    if had is not None and allocation is not None and had != allocation:
        yield f"{path}/status", {"status": {"allocation": None, "reservedFor": None}}
    finalizers = list(meta.get("finalizers") or ())
    if allocation is not None and PROTECTED not in finalizers:
        yield path, {"metadata": {"finalizers": [*finalizers, PROTECTED]}}
    fields: Json = {"reservedFor": users}
    if allocation != had:
        fields["allocation"] = allocation
    yield f"{path}/status", {"status": fields}


def _key(claim: Json) -> str:
    """``namespace/name``"""
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _claims_of(user: DeviceUser) -> list[str]:
    return [f"{user.job.namespace}/{name}" for name in user.claims]


def _path(meta: Json) -> str:
    base = "/apis/resource.k8s.io/v1"
    return f"{base}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}"


def _version(claim: Json) -> int:
    return version_number(claim["metadata"].get("resourceVersion", ""))
