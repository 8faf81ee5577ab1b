"""Verbs as resources that are asked and never stored: ``.../NAME/explain`` and ``plans``.

=============================================================  ==================================
``GET``, ``POST .../namespaces/NS/podgroups/NAME/explain``      why the job waits, or where it is
``GET``, ``POST .../namespaces/NS/jobs/NAME/explain``           the same of a Job
``GET``, ``POST .../namespaces/NS/pods/NAME/explain``           the same of a pod's job, and the pod
``GET .../NAME/trace`` of the same                              each step of its next turns, live
                                                               (:mod:`coordinator.api.read.trace`)
``POST /apis/quadrant.dev/v1alpha1/plans``                      what would come of a List of objects
=============================================================  ==================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from coordinator.api.change.bodies import Bodies, BodyLimits, is_small, unreadable, unsupported
from coordinator.api.http.parameters import flag
from coordinator.api.http.responses import json_answer
from coordinator.api.parser.pool import Parsers
from coordinator.api.parser.tasks import ParserTask
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.inquiry_client import Inquiries
from coordinator.dispatch.worker_client import Shards
from coordinator.explain.explainer import Explainer
from coordinator.explain.planner import Planner
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import (
    JOB,
    POD,
    POD_GROUPS,
    Kind,
)
from coordinator.intake.intake import Intake
from coordinator.objects.timeline import Happening, Stories
from shared.manifests.text.errors import TextError, TextLimits
from shared.manifests.text.text import Form, read_objects

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EXPLAINED = (POD, *POD_GROUPS, JOB)
VIRTUAL = (
    *(
        (
            kind.api_version,
            {
                "name": f"{kind.plural}/{verb}",
                "singularName": "",
                "namespaced": True,
                "group": "quadrant.dev",
                "version": "v1alpha1",
                "kind": answer,
                "verbs": verbs,
            },
        )
        for kind in EXPLAINED
        for verb, answer, verbs in (
            ("explain", "Explanation", ["create", "get"]),
            ("trace", "Trace", ["get"]),
        )
    ),
    (
        "v1",
        {
            "name": "pods/eviction",
            "singularName": "",
            "namespaced": True,
            "group": "policy",
            "version": "v1",
            "kind": "Eviction",
            "verbs": ["create"],
        },
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
"""Discovery entries: (group and version, entry)."""
PLANS = "/apis/quadrant.dev/v1alpha1/plans"
FORMS: dict[str, Form] = {"application/json": "json", "application/yaml": "yaml"}
LIMITS = BodyLimits(body_bytes=1 << 20, waiting_bytes=8 << 20)
"""Limits for plans, which people write. Reading this much YAML takes a second of processor time, in
a separate process."""
PLAN_OBJECTS = 500
"""Maximum objects of a plan: they are judged at once, 20 us each, since the state must not change
meanwhile."""


MayPlan = Callable[[Sequence[Any]], None]
"""Raises Problem if the caller may not plan these objects."""


def virtual_routes(
    core: Coordinator,
    shards: Shards,
    intake: Intake,
    stories: Stories,
    parsers: Parsers,
    *,
    events_of: Callable[[Key], Sequence[Happening]],
    reported: Callable[[int], object],
    may_plan: MayPlan = lambda items: None,
    history: Path | None = None,
) -> list[web.RouteDef]:
    """The routes. Handlers raise :class:`coordinator.errors.Problem`; the application renders
    it. ``events_of``: what the policies of a Job did. ``reported``: called with a job whose
    reason may have changed by an explanation. ``history``: the file that the cluster's process
    writes."""
    inquiries = Inquiries(shards)
    explainer = Explainer(
        core,
        inquiries,
        lambda: intake.registry,
        stories=stories,
        events_of=events_of,
        reported=reported,
        history=history,
    )
    routes: list[web.RouteDef] = []
    for kind in EXPLAINED:
        path = subresource_path(kind, "explain")
        handler = _explains(explainer, kind)
        routes += [web.get(path, handler), web.post(path, handler)]
    planner = Planner(core, inquiries, intake)
    return [*routes, web.post(PLANS, _plans(planner, Bodies(LIMITS), parsers, may_plan))]


def subresource_path(kind: Kind, verb: str) -> str:
    """The route of a verb of one object."""
    return f"{kind.root}/namespaces/{{namespace}}/{kind.plural}/{{name}}/{verb}"


def _explains(explainer: Explainer, kind: Kind) -> Handler:
    async def explain(request: web.Request) -> web.StreamResponse:
        at = request.match_info
        with_receipt = flag(request.query.get("receipt", "false"), "receipt")
        answer = await explainer.explain(
            kind.kind, at["namespace"], at["name"], with_receipt=with_receipt
        )
        return json_answer(answer)

    return explain


def _plans(planner: Planner, bodies: Bodies, parsers: Parsers, may_plan: MayPlan) -> Handler:
    async def plan(request: web.Request) -> web.StreamResponse:
        with bodies.take(request):
            items = await _items(await bodies.read(request), request.content_type, parsers)
            may_plan(items)
            return json_answer(await planner.plan(items))

    return plan


async def _items(body: bytes, content_type: str, parsers: Parsers) -> list[dict[str, Any]]:
    """The objects of a body: one, a List, or several YAML documents."""
    form = FORMS.get(content_type)
    if form is None:
        raise unsupported(content_type, tuple(FORMS))
    limits = TextLimits(size=LIMITS.body_bytes, objects=PLAN_OBJECTS)
    try:
        if is_small(body, content_type):
            return read_objects(body, form=form, limits=limits)
        ask = {"size": limits.size, "objects": limits.objects}
        return await parsers.ask({"task": ParserTask.OBJECTS, "form": form, "limits": ask}, body)
    except TextError as error:
        raise unreadable(error) from error
