"""``GET /apis/quadrant.dev/v1alpha1/queuepairs``: what queues lack, and which queues have it."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from coordinator.api.auth.roles import QUEUE_PAIRS
from coordinator.api.http.responses import json_answer
from coordinator.core.coordinator import Coordinator
from coordinator.errors import Problem
from coordinator.explain.queues.balances import divisible_resources, has_shares, scarce_resources
from coordinator.explain.queues.pair_hours import PairHours
from coordinator.explain.queues.pairs_json import queue_pairs
from shared.slices import in_slices


def queue_pairs_routes(core: Coordinator, hours: PairHours) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.StreamResponse:
        if not has_shares(core):
            raise Problem(
                HTTPStatus.CONFLICT,
                "no plugin of the policy in force gives queues a share, so that none lacks or "
                "borrows anything; add proportion or capacity to it",
            )
        resource = request.query.get("resource", "")
        names = divisible_resources(core)
        if resource and resource not in names:
            known = ", ".join(names) or "none yet, it has no nodes"
            message = f"resource {resource!r} is not divided among queues here; choose of: {known}"
            raise Problem(HTTPStatus.BAD_REQUEST, message)
        resources = [resource] if resource else scarce_resources(core)
        return json_answer(await in_slices(queue_pairs(core, hours, resources)))

    return [web.get(QUEUE_PAIRS, show)]
