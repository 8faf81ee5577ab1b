"""The queues that Volcano's scheduler creates at its start.

Jobs that name no queue are in ``default``, and its controllers refuse a Job without its queue.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.intake.documents.kinds import QUEUE
from coordinator.service.observed.status_writes import StatusWriter

Json = dict[str, Any]

QUEUES: tuple[tuple[str, Json], ...] = (
    ("root", {"weight": 1, "reclaimable": False}),
    ("default", {"weight": 1, "reclaimable": True}),
)
"""Names and specs as Volcano has them, the parent first."""
LOOK_SECONDS = 0.5
AGAIN_SECONDS = 1.0
AGAIN_LIMIT_SECONDS = 60.0
"""Pause before a queue is asked for again; doubles up to the limit. Rights and definitions may come
later than we."""

log = structlog.get_logger(__name__)


async def create_first_queues(mirror: Mirror, writer: StatusWriter) -> None:
    """Create the queues that are missing, once everything was listed."""
    while not mirror.complete:  # noqa: ASYNC110 - the watches complete it
        await asyncio.sleep(LOOK_SECONDS)
    missing = [queue for queue in QUEUES if not mirror.exists(ObjectKey(QUEUE.kind, "", queue[0]))]
    pause = AGAIN_SECONDS
    while missing := [queue for queue in missing if not await _create(writer, *queue)]:
        await asyncio.sleep(pause)
        pause = min(2 * pause, AGAIN_LIMIT_SECONDS)


async def _create(writer: StatusWriter, name: str, spec: Json) -> bool:
    """Create a queue; True where it exists now."""
    item = {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.written,
        "metadata": {"name": name},
        "spec": spec,
    }
    path = f"/apis/{QUEUE.api_version}/{QUEUE.plural}"
    answer = await writer.report("POST", path, msgspec.json.encode(item), "")
    if answer is None:
        return False
    # 409: somebody else was first.
    if answer.code < 300 or answer.code == HTTPStatus.CONFLICT:
        return True
    if answer.code != HTTPStatus.NOT_FOUND:  # the cluster has no such kind
        why = status_of(answer.body, answer.code).message
        log.warning("A queue cannot be created", queue=name, why=why)
    return False
