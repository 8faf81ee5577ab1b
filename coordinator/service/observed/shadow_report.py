"""``GET /apis/quadrant.dev/v1alpha1/shadow``: what we would have done otherwise, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from coordinator.api.auth.roles import SHADOW
from coordinator.cluster.kubernetes.shadow.book import QueueTotals, ShadowBook, ShadowVerdict
from coordinator.cluster.kubernetes.state.mirror import Mirror


def shadow_routes(book: ShadowBook, mirror: Mirror) -> list[web.RouteDef]:
    async def show(_: web.Request) -> web.StreamResponse:
        body = orjson.dumps(shadow_json(book, mirror))
        return web.Response(body=body, content_type="application/json")

    return [web.get(SHADOW, show)]


def shadow_json(book: ShadowBook, mirror: Mirror) -> dict[str, Any]:
    jids = {row.uid: row.jid for row in mirror.pods}
    entries = book.entries(lambda uid: jids.get(uid, -1))
    return {
        "complete": mirror.complete,
        "queues": {name: queue_json(totals) for name, totals in sorted(book.queues().items())},
        "pods": [asdict(entry) | {"verdict": entry.verdict} for entry in entries],
        "notUnderstood": {"pods": book.refusals, "last": dict(list(book.refused.items())[-100:])},
    }


def queue_json(totals: QueueTotals) -> dict[str, Any]:
    compared = totals.compared
    return {
        "pods": sum(totals.verdicts.values()),
        "verdicts": {verdict.value: totals.verdicts[verdict] for verdict in ShadowVerdict},
        "evictions": totals.evictions,
        "compared": compared,
        "meanWaitOurs": round(totals.ours_waits / compared, 3) if compared else None,
        "meanWaitTheirs": round(totals.theirs_waits / compared, 3) if compared else None,
    }
