"""``kubectl auth can-i`` on the simulated cluster: what the caller's own token allows.

A real cluster's API server answers this itself; there kubectl asks it, and not this service.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.auth.roles import needed
from coordinator.api.change.bodies import Bodies, bad, object_of
from coordinator.api.http.responses import json_answer
from coordinator.intake.documents.kinds import KINDS
from coordinator.intake.principal import CALLER, Principal, may_reach
from shared.errors import shown
from shared.units.amount_text import some

Json = dict[str, Any]

GROUP_VERSION = "authorization.k8s.io/v1"
KIND = "SelfSubjectAccessReview"
REVIEWS = f"/apis/{GROUP_VERSION}/selfsubjectaccessreviews"
ENTRY = (
    GROUP_VERSION,
    {
        "name": "selfsubjectaccessreviews",
        "singularName": "selfsubjectaccessreview",
        "namespaced": False,
        "kind": KIND,
        "verbs": ["create"],
    },
)
"""Discovery entry."""
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_EVERY = "*"


def own_access_routes(bodies: Bodies) -> list[web.RouteDef]:
    async def review(request: web.Request) -> web.StreamResponse:
        with bodies.take(request):
            item = object_of(await bodies.read(request), request.content_type)
        spec = item.get("spec")
        if item.get("kind", KIND) != KIND or not isinstance(spec, dict):
            raise bad(f"not a {KIND}: it needs spec.resourceAttributes; send one")
        why = _why_not(CALLER.get(), spec)
        status: Json = {"allowed": not why, **({"reason": why} if why else {})}
        answer = {"apiVersion": GROUP_VERSION, "kind": KIND, "metadata": {}}
        return json_answer(answer | {"spec": spec, "status": status}, status=HTTPStatus.CREATED)

    return [web.post(REVIEWS, review)]


def _why_not(caller: Principal, spec: Json) -> str:
    """Why the caller may not do this; "" if they may. Which queues and priority classes a token has
    is judged by object, when one is written."""
    match spec:
        case {"resourceAttributes": dict(attributes)}:
            route, is_namespaced = _route(attributes), _is_namespaced(attributes)
        case {"nonResourceAttributes": dict(attributes)}:
            route, is_namespaced = str(attributes.get("path") or ""), False
        case _:
            raise bad("spec has neither resourceAttributes nor nonResourceAttributes; name one")
    verb = str(attributes.get("verb") or "")
    if verb not in (*_METHODS, _EVERY, "head", "options", "post", "put"):
        return f"no request has the verb {shown(verb)}"
    method = "DELETE" if verb == _EVERY else _METHODS.get(verb, verb.upper())
    if (role := needed(method, route)) is not None and caller.role < role:
        return f"it needs role {role.word}; the token {caller.name} has role {caller.role.word}"
    if caller.namespaces is None or not is_namespaced:
        return ""
    has, namespace = some(sorted(caller.namespaces), 5), str(attributes.get("namespace") or "")
    reachable = namespace and may_reach(caller, namespace)
    return "" if reachable else f"the token {caller.name} is for namespace {has} only"


def _route(attributes: Json) -> str:
    """The route of the resource, as far as roles depend on it."""
    group, resource = str(attributes.get("group") or ""), str(attributes.get("resource") or "")
    base = f"/apis/{group}/v1" if group else "/api/v1"
    parts = [base, resource, "{name}", str(attributes.get("subresource") or "")]
    return "/".join(filter(None, parts if parts[-1] else parts[:2]))


def _is_namespaced(attributes: Json) -> bool:
    cluster_wide = {(kind.group, kind.plural) for kind in KINDS if not kind.namespaced}
    return (str(attributes.get("group") or ""), attributes.get("resource")) not in cluster_wide
