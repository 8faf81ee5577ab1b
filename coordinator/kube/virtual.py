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
from coordinator.objects.kinds import JOB, POD, POD_GROUP, Kind
from coordinator.shards import Shards

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EXPLAINED = (POD, POD_GROUP, JOB)


def virtual_routes(*, core: Coordinator, shards: Shards, intake: Intake) -> list[web.RouteDef]:
    """Handlers raise :class:`coordinator.kube.problems.Problem`; the application renders it."""
    inquiries = Inquiries(shards)
    explainer = Explainer(core, inquiries, lambda: intake.registry)
    routes: list[web.RouteDef] = []
    for kind in EXPLAINED:
        path = f"{_root(kind)}/namespaces/{{namespace}}/{kind.plural}/{{name}}/explain"
        handler = _explains(explainer, kind)
        routes += [web.get(path, handler), web.post(path, handler)]
    return routes


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _explains(explainer: Explainer, kind: Kind) -> Handler:
    async def explain(request: web.Request) -> web.StreamResponse:
        at = request.match_info
        return _json(await explainer.explain(kind.kind, at["namespace"], at["name"]))

    return explain


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
