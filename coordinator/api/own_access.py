"""``kubectl auth can-i``, with ``--list`` too, on the simulated cluster: what the caller's own
token allows.

A real cluster's API server answers this itself; there kubectl asks it, and not this service.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.auth.roles import needed
from coordinator.api.change.bodies import Bodies, bad, object_of
from coordinator.api.http.responses import json_answer
from coordinator.api.subresources import VIRTUAL
from coordinator.intake.documents.kinds import KINDS
from coordinator.intake.principal import CALLER, Principal, may_reach
from shared.errors import shown
from shared.units.amount_text import some

Json = dict[str, Any]

GROUP_VERSION = "authorization.k8s.io/v1"
KIND, RULES_KIND = "SelfSubjectAccessReview", "SelfSubjectRulesReview"
ENTRIES: list[tuple[str, Json]] = [
    (
        GROUP_VERSION,
        {
            "name": f"{kind.lower()}s",
            "singularName": kind.lower(),
            "namespaced": False,
            "kind": kind,
            "verbs": ["create"],
        },
    )
    for kind in (KIND, RULES_KIND)
]
"""Discovery entries."""
REVIEWS, RULES = (f"/apis/{version}/{entry['name']}" for version, entry in ENTRIES)
_PATHS = ("/health", "/healthz", "/livez", "/readyz", "/version", "/metrics")
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
        spec = await _spec(bodies, request, KIND, "spec.resourceAttributes")
        why = _why_not(CALLER.get(), spec)
        return _answer(KIND, spec, {"allowed": not why, **({"reason": why} if why else {})})

    async def rules(request: web.Request) -> web.StreamResponse:
        spec = await _spec(bodies, request, RULES_KIND, "spec.namespace")
        if not isinstance(spec.get("namespace"), str) or not spec["namespace"]:
            raise bad("spec.namespace is missing; name the namespace that is asked about")
        return _answer(RULES_KIND, spec, _rules(CALLER.get(), spec["namespace"]))

    return [web.post(REVIEWS, review), web.post(RULES, rules)]


async def _spec(bodies: Bodies, request: web.Request, kind: str, needs: str) -> Json:
    with bodies.take(request):
        item = object_of(await bodies.read(request), request.content_type)
    spec = item.get("spec")
    if item.get("kind", kind) != kind or not isinstance(spec, dict):
        raise bad(f"not a {kind}: it needs {needs}; send one")
    return spec


def _answer(kind: str, spec: Json, status: Json) -> web.StreamResponse:
    answer = {"apiVersion": GROUP_VERSION, "kind": kind, "metadata": {}}
    return json_answer(answer | {"spec": spec, "status": status}, status=HTTPStatus.CREATED)


def _rules(caller: Principal, namespace: str) -> Json:
    """Everything that the caller may do in a namespace, by kind, as a rules review answers it."""
    resources = [(kind.group, kind.plural, kind.verbs) for kind in KINDS]
    resources += [
        (version.rpartition("/")[0], str(entry["name"]), tuple(entry["verbs"]))
        for version, entry in (*VIRTUAL, *ENTRIES)
    ]
    by_verbs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for group, name, served in resources:
        resource, _, subresource = name.partition("/")
        named = {"group": group, "resource": resource, "subresource": subresource}
        asked = (
            (verb, {"resourceAttributes": {**named, "namespace": namespace, "verb": verb}})
            for verb in served
        )
        verbs = tuple(verb for verb, spec in asked if not _why_not(caller, spec))
        if verbs:
            by_verbs.setdefault((group, verbs), []).append(name)
    rules = [
        {"verbs": [*verbs], "apiGroups": [group], "resources": names}
        for (group, verbs), names in by_verbs.items()
    ]
    paths: list[Json] = [{"verbs": ["get"], "nonResourceURLs": [*_PATHS]}]
    return {"resourceRules": rules, "nonResourceRules": paths, "incomplete": False}


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
