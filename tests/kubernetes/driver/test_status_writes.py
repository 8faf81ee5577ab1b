"""Status writes to a real API server against what happens meanwhile: bindings, pods of the same
name, admissions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.writes import status_queue
from coordinator.core.reasons.fitting import fitting_tasks
from coordinator.intake.documents.document import Key
from coordinator.objects import context
from coordinator.objects.context import ReadModel
from coordinator.objects.events import EventEntry, event_of_pod
from coordinator.service.observed import statuses
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.identity import Identity
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.driver.test_statuses import events_of, group_status, scheduled, wide
from tests.kubernetes.faults.effects import Answer, HoldRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """It reaches the API server by way of the proxy. One node of four cores."""
    await install_volcano(cluster)
    await cluster.create(node("n1"))
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig) as running:
        await until(lambda: running.observed.cluster.mirror.complete)
        yield running


async def scheduled_status(cluster: ApiClient, name: str) -> str | None:
    """The status of a pod's condition PodScheduled."""
    conditions = (await cluster.get(f"{PODS}/{name}"))["status"].get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == "PodScheduled"), None)


async def test_no_write_after_the_binding_says_that_the_pod_is_unscheduled(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    held = HoldRequest()
    fault = proxy.inject(held, method="PATCH", part="/pods/late/status")
    await cluster.create(pod("late", cpu=9))
    await proxy.until_met(fault)
    await cluster.create(node("n2", cpu=16))
    await quadrant.until_bound("late")
    assert await scheduled_status(cluster, "late") == "True"
    held.released.set()
    await asyncio.sleep(1.0)
    assert await scheduled_status(cluster, "late") == "True"


async def test_a_pod_is_said_to_be_assigned_once_it_is_bound(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    held = HoldRequest()
    binding = proxy.inject(held, method="POST", part="/pods/p/binding")
    await cluster.create(pod("p"))
    await proxy.until_met(binding)
    await asyncio.sleep(1.0)
    assert await events_of(cluster, "Pod", "p") == []
    held.released.set()
    (event,) = await until(partial(_events, cluster, "p"))
    assert (event["reason"], event["type"]) == ("Scheduled", "Normal")
    assert event["message"] == "Successfully assigned default/p to n1"


async def _events(cluster: ApiClient, name: str) -> list[Json] | None:
    return await events_of(cluster, "Pod", name) or None


async def test_a_refused_binding_marks_no_pod_that_was_bound_meanwhile(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    """Somebody else binds the pod between the refusal and the mark."""
    held = HoldRequest()
    proxy.inject(Answer(422), method="POST", part="/pods/p/binding")
    mark = proxy.inject(held, method="PATCH", part="/pods/p/status")
    _, created = await cluster.create(node("n2"), pod("p"))
    await proxy.until_met(mark)
    await cluster.bind({"apiVersion": "v1", "kind": "Pod"} | created, "n2")
    held.released.set()
    await until(lambda: quadrant.states()["bound"] == 1)
    assert await quadrant.nodes_of("p") == {"p": "n2"}
    assert await scheduled_status(cluster, "p") == "True"


async def test_the_next_pod_of_a_name_has_its_condition_and_event_without_a_pause(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [pod(f"wide-{i}", group="wide", cpu=9) for i in range(2)]
    await cluster.create(pod_group("wide", 2), *members)
    before = await until(partial(_own_event, cluster, "wide-0"))
    await until(lambda: scheduled(cluster, "wide-0"))
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 600.0)
    await cluster.delete(f"{PODS}/wide-0")
    await cluster.create(members[0])
    await until(lambda: scheduled(cluster, "wide-0"))
    after = await until(partial(_own_event, cluster, "wide-0"))
    assert after["metadata"]["name"] != before["metadata"]["name"]


async def _own_event(cluster: ApiClient, name: str) -> Json | None:
    """An event of the pod that has the name now."""
    uid = (await cluster.get(f"{PODS}/{name}"))["metadata"]["uid"]
    events = await events_of(cluster, "Pod", name)
    return next((e for e in events if e["involvedObject"]["uid"] == uid), None)


async def test_an_admission_is_written_without_a_pause(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller makes the pods of a Job once its PodGroup is Inqueue."""
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 600.0)
    group = pod_group("job", 6)
    group["spec"]["minResources"] = {"cpu": "6"}
    await cluster.create(group)
    await until(partial(_has_phase, cluster, "Pending"))
    await cluster.create(node("n2"))
    await until(partial(_has_phase, cluster, "Inqueue"))


async def test_a_podgroup_has_its_condition_before_its_pods_have_theirs(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Volcano's controllers read it when a pod changes. Its phase was written a moment before."""
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 600.0)
    await cluster.create(pod_group("job", 2))
    await until(partial(_has_phase, cluster, "Inqueue"))
    held = HoldRequest()
    fault = proxy.inject(held, method="PATCH", part="/podgroups/job")
    await cluster.create(*(pod(f"job-{i}", group="job", cpu=9) for i in range(2)))
    await proxy.until_met(fault)
    await asyncio.sleep(1.0)
    assert await scheduled_status(cluster, "job-0") is None
    held.released.set()
    await until(lambda: scheduled(cluster, "job-0"))
    [condition] = (await group_status(cluster, "job"))["conditions"]
    assert condition["type"] == "Unschedulable"


async def test_a_phase_is_written_although_the_server_does_not_say_at_first_what_groups_have(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    proxy.inject(Answer(503), part="/apis/scheduling.volcano.sh/v1beta1", times=3)
    await cluster.create(pod_group("job", 2))
    await until(partial(_has_phase, cluster, "Inqueue"))


async def test_pods_are_told_while_the_server_does_not_say_what_groups_have(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PodGroup is first in line at each tick: pauses are shorter than those between ticks."""
    for pause in ("PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(status_queue, pause, statuses.TICK_SECONDS / 10)
    proxy.inject(Answer(503), part="/apis/scheduling.volcano.sh/v1beta1", times=1_000_000)
    await cluster.create(pod_group("job", 2), pod("wide", cpu=9))
    await until(lambda: scheduled(cluster, "wide"))


async def test_the_members_of_a_gang_share_the_search_for_those_that_fit(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()

    def counted(*args: Any) -> Any:
        calls["fitting"] += 1
        return fitting_tasks(*args)

    monkeypatch.setattr(context, "fitting_tasks", counted)
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 0)
    members = 30
    await cluster.create(*wide(members))
    await until(lambda: [job.info.pending for job in quadrant.jobs()] == [members])
    await asyncio.sleep(1.0)
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 100)
    await until(partial(_all_wait, quadrant, cluster, members))
    # Each tick with a changed job searches anew, and a slow machine has more ticks.
    assert 0 < calls["fitting"] < members


async def _all_wait(quadrant: Followed, cluster: ApiClient, count: int) -> bool:
    pods = await quadrant.pods()
    return len(pods) == count and all(pod["status"].get("conditions") for pod in pods.values())


async def test_the_event_of_a_binding_is_made_once(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statuses, "LOOK_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 0.1)
    made = list[str]()

    def counted(read_model: ReadModel, about: Key, *args: Any) -> EventEntry:
        made.append(about.name)
        return event_of_pod(read_model, about, *args)

    monkeypatch.setattr(statuses, "event_of_pod", counted)
    await cluster.create(pod("p"))
    await until(partial(_events, cluster, "p"))
    await asyncio.sleep(1.0)
    assert made == ["p"]


async def _has_phase(cluster: ApiClient, phase: str) -> bool:
    return (await group_status(cluster, "job")).get("phase") == phase
