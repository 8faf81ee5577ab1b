"""The volume controller, and a provisioner of storage classes that wait for a pod's node.

A claim that was told a node gets a volume that this node alone reaches; a volume that names a claim
is bound to it. Now and then a volume cannot be made at first, which a provisioner says by taking
the node off the claim.
"""

from __future__ import annotations

from random import Random

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.controllers.rounds import patch_as_seen
from laboratory.workloads.manifests import manifest

PROVISIONER = "disks.example.com"
SELECTED = "volume.kubernetes.io/selected-node"
HOSTNAME = "kubernetes.io/hostname"
_VOLUMES = "/api/v1/persistentvolumes"
_FAILING = 0.2
"""Share of claims whose first volume cannot be made."""


class VolumeControllerDouble:
    def __init__(self, seed: int) -> None:
        self._rng = Random(f"volumes {seed}")
        self._tried: set[str] = set()
        """Uids of claims."""

    async def look(self, client: ApiClient) -> None:
        claims = (await client.get("/api/v1/persistentvolumeclaims"))["items"]
        open_claims = {c["metadata"]["uid"]: c for c in claims if _is_open(c)}
        if not open_claims:
            return
        named = set()
        for volume in (await client.get(_VOLUMES))["items"]:
            uid = (volume["spec"].get("claimRef") or {}).get("uid", "")
            if uid in open_claims:
                named.add(uid)
                await self._bind(client, open_claims[uid], volume["metadata"]["name"])
        for uid, claim in open_claims.items():
            node = (claim["metadata"].get("annotations") or {}).get(SELECTED)
            if node and uid not in named:
                await self._provision(client, claim, node)

    async def _provision(self, client: ApiClient, claim: Json, node: str) -> None:
        uid = claim["metadata"]["uid"]
        fails = uid not in self._tried and self._rng.random() < _FAILING
        self._tried.add(uid)
        if fails:
            change = {"metadata": {"annotations": {SELECTED: None}}}
            await patch_as_seen(client, _path(claim), claim, change)
        else:
            await client.post(_VOLUMES, _made_for(claim, node), code=None)  # bound in a later look

    async def _bind(self, client: ApiClient, claim: Json, volume: str) -> None:
        if claim["spec"].get("volumeName") != volume:
            marks = {"pv.kubernetes.io/bind-completed": "yes"}
            change = {"metadata": {"annotations": marks}, "spec": {"volumeName": volume}}
            if not await patch_as_seen(client, _path(claim), claim, change):
                return
        await client.patch(f"{_VOLUMES}/{volume}/status", _BOUND, code=None)
        await client.patch(f"{_path(claim)}/status", _BOUND, code=None)


_BOUND = {"status": {"phase": "Bound"}}


def _is_open(claim: Json) -> bool:
    return bool(claim.get("status", {}).get("phase") != "Bound")


def _path(claim: Json) -> str:
    metadata = claim["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def _made_for(claim: Json, node: str) -> Json:
    metadata = claim["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    reference |= {key: metadata[key] for key in ("namespace", "name", "uid")}
    hostname_term = {"key": HOSTNAME, "operator": "In", "values": [node]}
    spec = {
        "capacity": claim["spec"]["resources"]["requests"],
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": claim["spec"]["storageClassName"],
        "claimRef": reference,
        "local": {"path": "/disk"},
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [hostname_term]}]}
        },
    }
    return manifest("PersistentVolume", f"pvc-{metadata['uid']}", spec)
