"""Rights by RBAC, and service accounts with tokens as a pod would have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from laboratory.local_kubernetes.client import ApiClient
from tests.coordinator.api.client import Json

RBAC = "rbac.authorization.k8s.io"
_REVIEWS = "authorization.k8s.io/v1"
_GRANTED_SECONDS = 60.0


def user(name: str) -> Json:
    """A user of a certificate, as the subject of a binding."""
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def account(namespace: str, name: str) -> Json:
    """A service account, as the subject of a binding."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def username(namespace: str, name: str) -> str:
    """Name of a service account for the API server and its audit log."""
    return f"system:serviceaccount:{namespace}:{name}"


async def grant(
    admin: ApiClient, subject: Json, rules: Sequence[Json], *, namespace: str = ""
) -> None:
    """Let a subject do this in a namespace ("": the whole cluster), and wait until the server
    does: it reads roles by a watch."""
    name = f"tests-{subject['name']}"
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    rbac = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    await admin.create(rbac | {"kind": kind, "rules": list(rules)})
    await admin.create(
        rbac | {"kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
    )
    of_account = subject["kind"] == "ServiceAccount"
    who = username(subject["namespace"], subject["name"]) if of_account else subject["name"]
    async with asyncio.timeout(_GRANTED_SECONDS):
        for rule in rules:
            question = {"user": who} | _first_right(rule, namespace)
            while not await _allowed(admin, question):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def _first_right(rule: Json, namespace: str) -> Json:
    """The first of a rule's rights, as a review asks for it."""
    [verb, *_] = rule["verbs"]
    if paths := rule.get("nonResourceURLs"):
        return {"nonResourceAttributes": {"verb": verb, "path": paths[0]}}
    resource, _, part = rule["resources"][0].partition("/")
    [name, *_] = rule.get("resourceNames") or [""]
    attributes = {"verb": verb, "group": rule["apiGroups"][0], "name": name}
    attributes |= {"resource": resource, "subresource": part, "namespace": namespace}
    return {"resourceAttributes": attributes}


async def _allowed(admin: ApiClient, question: Json) -> bool:
    kind = {"apiVersion": _REVIEWS, "kind": "SubjectAccessReview"}
    answer = await admin.post(f"/apis/{_REVIEWS}/subjectaccessreviews", kind | {"spec": question})
    return bool(answer["status"]["allowed"])


async def token_of(
    admin: ApiClient, namespace: str, name: str, *, seconds: int = 3600, audience: str = ""
) -> str:
    """Make the service account where it is new, and a token for it. ``audience`` "": for the API
    server."""
    resource = await admin.resource("v1", "ServiceAccount")
    body = {"apiVersion": "v1", "kind": "ServiceAccount"}
    metadata = {"name": name, "namespace": namespace}
    await admin.post(resource.path(namespace), body | {"metadata": metadata}, code=None)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds, "audiences": [audience] if audience else []},
    }
    answer = await admin.post(f"{resource.path(namespace, name)}/token", request)
    return str(answer["status"]["token"])
