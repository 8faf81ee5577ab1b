"""What a snapshot needs beside the objects: ``GET /apis/quadrant.dev/v1alpha1/record``.

Objects do not tell the policy that counts, when a job came to the fraction of a second and which
of two came first, who waits for a promised node, and which pods are on their way out.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from coordinator.core import Coordinator
from coordinator.jobs import JobState
from shared.messages import TaskState
from shared.policy import Policy

RECORD = "/apis/quadrant.dev/v1alpha1/record"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def record_routes(core: Coordinator) -> list[web.RouteDef]:
    async def show(_: web.Request) -> web.StreamResponse:
        body = orjson.dumps(record(core, time.time()))
        return web.Response(body=body, content_type="application/json")

    return [web.get(RECORD, show)]


def record(core: Coordinator, now: float) -> dict[str, Any]:
    """Jobs in the order in which they came; pods by ``namespace/name``."""
    states = [core.order.jobs[jid] for jid in sorted(core.order.jobs)]
    promised: dict[str, str] = {}
    leaving: list[str] = []
    for state in states:
        for tix, row in state.nominated.items():
            promised[_pod(state, tix)] = core.names.get(row, "")
        if TaskState.RELEASING in state.states:
            leaving += [
                _pod(state, tix)
                for tix, now_in in enumerate(state.states)
                if now_in == TaskState.RELEASING
            ]
    return {
        "apiVersion": "quadrant.dev/v1alpha1",
        "kind": "Record",
        "takenAt": now,
        "policy": written(core.order.session.policy),
        "shards": len(core.dispatcher.shards),
        "jobs": [_job(state) for state in states],
        "promised": promised,
        "leaving": leaving,
    }


def written(policy: Policy) -> dict[str, Any]:
    """A policy as its file has it."""
    tiers = [
        {
            "plugins": [
                {"name": option.name, **option.flags}
                | ({"arguments": option.arguments} if option.arguments else {})
                for option in tier
            ]
        }
        for tier in policy.tiers
    ]
    made: dict[str, Any] = {"actions": ", ".join(policy.actions), "tiers": tiers}
    if policy.configurations:
        made["configurations"] = [
            {"name": name, "arguments": arguments}
            for name, arguments in policy.configurations.items()
        ]
    return made


def _job(state: JobState) -> dict[str, Any]:
    job = state.job
    return {
        "kind": job.kind,
        "namespace": job.namespace,
        "name": job.name,
        "number": job.jid,
        "created": job.created,
    }


def _pod(state: JobState, tix: int) -> str:
    return f"{state.job.namespace}/{state.job.pod_name(tix)}"
