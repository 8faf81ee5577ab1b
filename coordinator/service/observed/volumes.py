"""Volumes of a Kubernetes cluster: asked for, and made and bound by others.

::

    a placement --> claim: selected-node --> its provisioner makes a volume -+
               +--> volume: claimRef ------> nothing else to do -------------+--> the volume
                                                                                  controller binds

As kube-scheduler does it. The watch of claims says when it has come about, so that nothing here is
remembered that a successor would miss.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.writes.patch import ObjectServer, PatchOutcome, patch
from coordinator.controllers.volume_controller import ClaimBinding
from coordinator.intake.documents.kinds import VOLUME_CLAIM

Json = dict[str, Any]

SELECTED = "volume.kubernetes.io/selected-node"
BOUND_HERE = "pv.kubernetes.io/bound-by-controller"
"""Tells the volume controller that the claim did not ask for this volume by name, so that a volume
that is given up becomes free again."""
AGAIN_SECONDS = 5.0
"""Pause before the API server is looked at again for a claim: its watch is quicker where anything
happens, and a provisioner takes seconds to minutes."""
KEPT_SECONDS = 600.0
"""How long it is known that a node was selected: binds wait for no longer."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _VolumeRequest:
    at: float
    uid: str = ""
    node: str = ""
    """The node that the claim's provisioner was told; "" where it was not."""


class ApiVolumes:
    def __init__(
        self,
        mirror: Mirror,
        server: ObjectServer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mirror = mirror
        self._server = server
        self._clock = clock
        self._asked: dict[str, _VolumeRequest] = {}

    def asked(self, claim: str) -> bool:
        request = self._asked.get(claim)
        return request is not None and self._clock() - request.at < AGAIN_SECONDS

    async def bind(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        """Ask for these volumes. Claim -> why it can have none."""
        now, failures = self._clock(), dict[str, str]()
        for claim in [c for c, request in self._asked.items() if now - request.at > KEPT_SECONDS]:
            del self._asked[claim]

        async def one(binding: ClaimBinding) -> None:
            request = self._asked.setdefault(binding.claim, _VolumeRequest(now))
            request.at = now
            try:
                why = await self._ask(binding, request)
            except ApiError as error:
                log.warning("Cannot look at a claim", claim=binding.claim, why=str(error))
                return
            if why:
                self._asked.pop(binding.claim, None)  # two tasks may share the claim
                failures[binding.claim] = why

        async with asyncio.TaskGroup() as group:  # of volume_controller.AT_ONCE at most
            for binding in chosen:
                group.create_task(one(binding))
        return failures

    async def _ask(self, binding: ClaimBinding, known: _VolumeRequest) -> str:
        """Why the claim cannot get its volume; "" where it may, also where the claim is no longer
        what it was: its watch says so."""
        namespace, _, name = binding.claim.partition("/")
        claim = await self._server.read(_claim_path(namespace, name))
        if claim is None or claim["spec"].get("volumeName"):
            return ""
        if claim["metadata"]["uid"] != self._mirror.uid(
            ObjectKey(VOLUME_CLAIM.kind, namespace, name)
        ):
            return ""
        if binding.volume:
            return await self._reserve(binding.volume, claim, known)
        return await self._select(binding.node.name, claim, known)

    # --- a volume that is made ------------------------------------------------------------------

    async def _select(self, node: str, claim: Json, known: _VolumeRequest) -> str:
        """Name the node to the claim's provisioner, which takes the name off where it fails."""
        meta = claim["metadata"]
        selected = (meta.get("annotations") or {}).get(SELECTED, "")
        was = known.node if known.uid == meta["uid"] else ""
        known.uid, known.node = meta["uid"], node
        if selected == node:
            return ""
        if selected:
            return f'persistentvolumeclaim "{meta["name"]}" gets its volume on node {selected}'
        if was == node:
            return f'no volume could be made for persistentvolumeclaim "{meta["name"]}"'
        path = _claim_path(meta["namespace"], meta["name"])
        fields = {"metadata": {"annotations": {SELECTED: node}}}
        patched = await patch(self._server, path, meta["resourceVersion"], fields)
        if patched.outcome is not PatchOutcome.DONE:
            known.node = ""
        return self._settled(known, patched.outcome, patched.message)

    # --- a volume that is there -----------------------------------------------------------------

    async def _reserve(self, name: str, claim: Json, known: _VolumeRequest) -> str:
        """Have the volume name its claim."""
        path = f"/api/v1/persistentvolumes/{name}"
        volume = await self._server.read(path)
        if volume is None or volume["spec"].get("claimRef"):
            return ""  # to this claim already, or to another: the watch says which
        meta = claim["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        fields = {
            "metadata": {"annotations": {BOUND_HERE: "yes"}},
            "spec": {"claimRef": reference},
        }
        patched = await patch(self._server, path, volume["metadata"]["resourceVersion"], fields)
        return self._settled(known, patched.outcome, patched.message)

    def _settled(self, known: _VolumeRequest, outcome: PatchOutcome, message: str) -> str:
        match outcome:
            case PatchOutcome.REFUSED:
                return f"the API server refuses it: {message}"
            case PatchOutcome.CHANGED:
                known.at -= AGAIN_SECONDS  # another look, at once
            case PatchOutcome.DONE | PatchOutcome.GONE | PatchOutcome.UNKNOWN:
                pass
        return ""


def _claim_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
