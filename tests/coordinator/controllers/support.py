"""Jobs with policies, and a service to run them."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.kinds import JOB
from coordinator.intake.writer import IntakeWriter
from shared.ledger.entries.snapshot import Snapshot
from tests.builders import objects
from tests.builders.objects import Item, container
from tests.end_to_end.one_process.harness import PATIENCE, Running


def task(
    name: str,
    count: int = 1,
    *,
    runs: float | None = None,
    code: int = 0,
    policies: list[Item] | None = None,
    after: list[str] | None = None,
    iteration: str = "all",
    minimum: int | None = None,
) -> Item:
    """A role. ``runs`` seconds, then ends with ``code``; without ``runs`` until it is stopped."""
    annotations = {"quadrant.dev/exit-code": str(code)}
    if runs is not None:
        annotations["quadrant.dev/duration"] = str(runs)
    items: Item = {
        "name": name,
        "replicas": count,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [container()]},
        },
    }
    if policies is not None:
        items["policies"] = policies
    if after is not None:
        items["dependsOn"] = {"name": after, "iteration": iteration}
    if minimum is not None:
        items["minAvailable"] = minimum
    return items


def when(event: str, action: str) -> Item:
    return {"event": event, "action": action}


def job(name: str, *tasks: Item, **spec: Any) -> Item:
    return objects.job(name, tasks=list(tasks), **spec)


def writer(service: Running) -> IntakeWriter:
    assert service.service._writer is not None
    return service.service._writer


async def submit(service: Running, *items: Item) -> list[str]:
    """The notices."""
    admission = await writer(service).submit(list(items))
    assert not admission.refused, admission.refused
    return [notice.message for notice in admission.notices]


def job_object(service: Running, name: str) -> Item | None:
    return service.service.objects.get(JOB, "ns", name)


def status(service: Running, name: str) -> Item:
    shown_object = job_object(service, name)
    assert shown_object is not None, f"Job {name} is gone"
    value: Item = shown_object["status"]
    return value


async def phase(service: Running, name: str, expected: str, within: float = PATIENCE) -> Item:
    """Wait until a Job has this phase; its status."""
    await service.until(lambda _: status(service, name)["state"]["phase"] == expected, within)
    return status(service, name)


async def gone(service: Running, name: str) -> None:
    await service.until(lambda _: job_object(service, name) is None)


async def ledger_of(service: Running) -> Snapshot:
    return await service.service._ledger.snapshot()
