"""TokenReview and SubjectAccessReview, asked of the API server of the cluster that is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from coordinator.api.auth.access import Access, PathAccess, ResourceAccess
from coordinator.api.auth.reviews import AccessVerdict, ClusterUser, ReviewFailed
from coordinator.cluster.kubernetes.api.credentials import ApiServer
from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.api.pool import NoAnswer, NotSent, WritePool

CONNECTIONS = 8
ANSWER_SECONDS = 3.0
"""A request of a client waits for two of these at most."""
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class ApiReviews:
    """Apart from the pool of bindings: a flood of either does not hold up the other."""

    def __init__(self, server: ApiServer, *, audiences: tuple[str, ...]) -> None:
        """``audiences``: a token must be for one of them."""
        self._server = server
        self._audiences = audiences
        self._pool = WritePool(server, connections=CONNECTIONS)

    async def close(self) -> None:
        await self._pool.close()

    async def user_of(self, token: str) -> ClusterUser | None:
        spec = {"token": token, "audiences": list(self._audiences)}
        status = await self._review(TOKENS, "authentication.k8s.io/v1", "TokenReview", spec)
        if not status.get("authenticated"):
            return None
        # A server that knows no audiences says nothing of them: then it did not look at them.
        if not set(self._audiences) & set(status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        extra = user.get("extra") or {}
        return ClusterUser(
            name=str(user.get("username") or ""),
            uid=str(user.get("uid") or ""),
            groups=tuple(user.get("groups") or ()),
            extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        )

    async def verdict(self, user: ClusterUser, access: Access) -> AccessVerdict:
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            **_attributes(access),
        }
        api_version = "authorization.k8s.io/v1"
        status = await self._review(ACCESS, api_version, "SubjectAccessReview", spec)
        allowed = bool(status.get("allowed")) and not status.get("denied")
        return AccessVerdict(allowed, str(status.get("reason") or ""))

    async def _review(
        self, path: str, api_version: str, kind: str, spec: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The status of a review. Raises ReviewFailed."""
        body = orjson.dumps({"apiVersion": api_version, "kind": kind, "spec": spec})
        where = f"the API server at {self._server.url}"
        try:
            answer = await self._pool.send("POST", path, body, seconds=ANSWER_SECONDS)
        except (NotSent, NoAnswer) as error:
            raise ReviewFailed(f"{where} did not answer a {kind}: {error}") from None
        if answer.code == HTTPStatus.FORBIDDEN:
            resource = path.rpartition("/")[2]
            message = f"{where} lets Quadrant make no {kind}: bind it a ClusterRole with create on "
            raise ReviewFailed(f"{message}{resource}, as k8s/components/reviews does")
        if answer.code != HTTPStatus.CREATED:
            message = status_of(answer.body, answer.code).message
            raise ReviewFailed(f"{where} answered a {kind} with {answer.code}: {message}")
        try:
            status = orjson.loads(answer.body).get("status")
        except (orjson.JSONDecodeError, AttributeError):
            status = None
        if not isinstance(status, dict):
            raise ReviewFailed(f"{where} answered a {kind} without a status")
        return status


def _attributes(access: Access) -> dict[str, dict[str, str]]:
    match access:
        case PathAccess(verb, path):
            return {"nonResourceAttributes": {"verb": verb, "path": path}}
        case ResourceAccess():
            return {
                "resourceAttributes": {
                    "verb": access.verb,
                    "group": access.group,
                    "version": access.version,
                    "resource": access.resource,
                    "subresource": access.subresource,
                    "namespace": access.namespace,
                    "name": access.name,
                }
            }
