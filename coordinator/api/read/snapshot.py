"""``GET /apis/quadrant.dev/v1alpha1/record``: what a snapshot needs in addition to the objects.

Objects do not contain the active policy, the exact creation times and order of jobs, the
nominations, and the pods that are being evicted or deleted.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
from aiohttp import web

from coordinator.api.auth.roles import RECORD
from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState
from shared.messages.messages import TaskState
from shared.policy.written import written
from shared.secrets.credentials import without_credentials
from shared.slices import Steps, in_slices

JOBS_AT_ONCE = 200
"""Jobs written before other tasks run: 1.2 us each."""
PODS_AT_ONCE = 1000
"""Leaving pods written before other tasks run: 1 us each."""


def record_routes(core: Coordinator) -> list[web.RouteDef]:
    async def show(_: web.Request) -> web.StreamResponse:
        body = await in_slices(record(core, time.time()))
        return web.Response(body=body, content_type="application/json")

    return [web.get(RECORD, show)]


def record(core: Coordinator, now: float) -> Steps[bytes]:
    """The record as JSON: jobs in order of creation, pods by ``namespace/name``.

    A job that is created or deleted meanwhile may be missing: the caller has to check whether
    anything changed.
    """
    states_of = core.order.jobs
    jids = sorted(states_of)
    promised: dict[str, str] = {}
    leaving: list[str] = []
    jobs: list[bytes] = []
    for at in range(0, len(jids), JOBS_AT_ONCE):
        states = [states_of[jid] for jid in jids[at : at + JOBS_AT_ONCE] if jid in states_of]
        for state in states:
            for tix, row in state.nominated.items():
                promised[_pod(state, tix)] = core.names.get(row, "")
            leaving += yield from _leaving(state)
        if states:
            jobs.append(orjson.dumps([_job(state) for state in states])[1:-1])
        yield
    head = {
        "apiVersion": "quadrant.dev/v1alpha1",
        "kind": "Record",
        "takenAt": now,
        # a plugin's argument may be an address with a password; nobody decides by it from here
        "policy": without_credentials(written(core.order.session.policy)),
        "shards": len(core.dispatcher.shards),
    }
    if core.order.picking.usage.settings is not None:
        head["queueUsage"] = core.order.accounts.cluster.objects.queue_usage
    tail = {"promised": promised, "leaving": leaving}
    both = orjson.dumps(head)[:-1], orjson.dumps(tail)[1:]
    return b"".join((both[0], b',"jobs":[', b",".join(jobs), b"],", both[1]))


def _leaving(state: JobState) -> Steps[list[str]]:
    """Names of the job's pods that are leaving. A job may have a million tasks: a byte search skips
    most."""
    names: list[str] = []
    tix = state.states.find(TaskState.RELEASING)
    while tix >= 0:
        names.append(_pod(state, tix))
        if len(names) % PODS_AT_ONCE == 0:
            yield
        tix = state.states.find(TaskState.RELEASING, tix + 1)
    return names


def _job(state: JobState) -> dict[str, Any]:
    job = state.job
    return {
        "kind": job.kind,
        "namespace": job.namespace,
        "name": job.name,
        "number": job.jid,
        "created": job.created,
        # Members without uids of their own go by their names; those shown were made up.
        "byUid": any(role.uids for role in job.roles),
    }


def _pod(state: JobState, tix: int) -> str:
    return f"{state.job.namespace}/{state.job.pod_name(tix)}"
