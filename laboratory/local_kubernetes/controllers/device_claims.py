"""The controller of ResourceClaims: a claim whose pods have ended gives its devices back."""

from __future__ import annotations

from http import HTTPStatus

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.controllers.rounds import patch_as_seen
from laboratory.local_kubernetes.errors import UnexpectedAnswer

_ENDED = ("Succeeded", "Failed")


async def free_claims(client: ApiClient) -> None:
    claims = (await client.get("/apis/resource.k8s.io/v1/resourceclaims"))["items"]
    for claim in claims:
        metadata, users = claim["metadata"], claim.get("status", {}).get("reservedFor", [])
        left = [user for user in users if await _lives(client, metadata["namespace"], user)]
        if len(left) < len(users):
            path = f"/apis/resource.k8s.io/v1/namespaces/{metadata['namespace']}/resourceclaims"
            status = {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
            await patch_as_seen(
                client, f"{path}/{metadata['name']}/status", claim, {"status": status}
            )


async def _lives(client: ApiClient, namespace: str, user: Json) -> bool:
    pod = await client.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{user['name']}")
    if pod["kind"] == "Status" and pod["code"] != HTTPStatus.NOT_FOUND:
        raise UnexpectedAnswer(str(pod))
    return pod["kind"] == "Pod" and _is_live(pod, user["uid"])


def _is_live(pod: Json, uid: str) -> bool:
    return bool(pod["metadata"]["uid"] == uid and pod["status"]["phase"] not in _ENDED)
