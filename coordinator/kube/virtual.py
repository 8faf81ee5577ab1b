"""Verbs as resources that are asked and never stored: ``.../NAME/explain`` and ``plans``.

=============================================================  ==================================
``GET``, ``POST .../namespaces/NS/podgroups/NAME/explain``      why the job waits, or where it is
``GET``, ``POST .../namespaces/NS/jobs/NAME/explain``           the same of a Job
``GET``, ``POST .../namespaces/NS/pods/NAME/explain``           the same of a pod's job, and the pod
``POST /apis/quadrant.dev/v1alpha1/plans``                      what would come of a List of objects
=============================================================  ==================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from coordinator.core import Coordinator
from coordinator.explain import Explainer
from coordinator.inquiries import Inquiries
from coordinator.intake import Intake
from coordinator.kube.bodies import Bodies, BodyLimits, bad, unsupported
from coordinator.objects.kinds import JOB, POD, POD_GROUP, Kind
from coordinator.objects.story import Stories
from coordinator.plan import Planner
from coordinator.shards import Shards
from shared.manifests.text import Form, TextError, read_objects

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EXPLAINED = (POD, POD_GROUP, JOB)
VIRTUAL = (
    *(
        (
            kind.api_version,
            {
                "name": f"{kind.plural}/explain",
                "singularName": "",
                "namespaced": True,
                "group": "quadrant.dev",
                "version": "v1alpha1",
                "kind": "Explanation",
                "verbs": ["create", "get"],
            },
        )
        for kind in EXPLAINED
    ),
    (
        "quadrant.dev/v1alpha1",
        {
            "name": "plans",
            "singularName": "plan",
            "namespaced": False,
            "kind": "Plan",
            "verbs": ["create"],
        },
    ),
)
"""What discovery says of them: group and version, and the entry there."""
PLANS = "/apis/quadrant.dev/v1alpha1/plans"
FORMS: dict[str, Form] = {"application/json": "json", "application/yaml": "yaml"}
LIMITS = BodyLimits(body_bytes=1 << 20, waiting_bytes=8 << 20)
"""A plan is for what a person is about to send; reading so much YAML takes a third of a second."""


def virtual_routes(
    core: Coordinator, shards: Shards, intake: Intake, stories: Stories
) -> list[web.RouteDef]:
    """Handlers raise :class:`coordinator.kube.problems.Problem`; the application renders it."""
    inquiries = Inquiries(shards)
    explainer = Explainer(core, inquiries, lambda: intake.registry, stories=stories)
    routes: list[web.RouteDef] = []
    for kind in EXPLAINED:
        path = f"{_root(kind)}/namespaces/{{namespace}}/{kind.plural}/{{name}}/explain"
        handler = _explains(explainer, kind)
        routes += [web.get(path, handler), web.post(path, handler)]
    planner = Planner(core, inquiries, intake)
    return [*routes, web.post(PLANS, _plans(planner, Bodies(LIMITS)))]


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _explains(explainer: Explainer, kind: Kind) -> Handler:
    async def explain(request: web.Request) -> web.StreamResponse:
        at = request.match_info
        return _json(await explainer.explain(kind.kind, at["namespace"], at["name"]))

    return explain


def _plans(planner: Planner, bodies: Bodies) -> Handler:
    async def plan(request: web.Request) -> web.StreamResponse:
        with bodies.take(request):
            items = _items(await bodies.read(request), request.content_type)
            return _json(await planner.plan(items))

    return plan


def _items(body: bytes, content_type: str) -> list[dict[str, Any]]:
    """The objects of a body: one, a List, or several YAML documents."""
    form = FORMS.get(content_type)
    if form is None:
        raise unsupported(content_type, tuple(FORMS))
    try:
        return read_objects(body, form=form)
    except TextError as error:
        raise bad(f"the body cannot be read: {error}") from error


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
