"""``GET /apis/quadrant.dev/v1alpha1/queuetree``: KAI's queues in figures, and who is next."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from aiohttp import web

from coordinator.api.auth.roles import QUEUE_TREE
from coordinator.core.coordinator import Coordinator
from coordinator.errors import Problem
from coordinator.explain.queues.queue_tree import order_json, order_of, tree_json, tree_of
from shared.policy.model import Dialect


def queue_tree_routes(core: Coordinator) -> list[web.RouteDef]:
    async def show(_: web.Request) -> web.StreamResponse:
        dialect = core.order.session.policy.dialect
        if dialect is not Dialect.KAI:
            raise Problem(
                HTTPStatus.CONFLICT,
                f"the policy in force is {dialect.scheduler}'s, whose queues have no tree of fair "
                "shares; see the metrics and quadrant queue list",
            )
        tree = tree_of(core)
        body = tree_json(tree) | {"order": order_json(order_of(core, tree))}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    return [web.get(QUEUE_TREE, show)]
