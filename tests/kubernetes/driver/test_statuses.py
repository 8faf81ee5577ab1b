"""Conditions, statuses and events of waiting pods and gangs on a real API server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.writes import status_queue
from coordinator.service.observed import statuses
from coordinator.service.observed.statuses import WRITES_A_TICK
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from shared.messages.reason import Reason
from tests.docs.terminal import kubectl
from tests.kubernetes.audit import entries
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.faults.effects import Answer, Effect, LoseAnswer, LoseRequest
from tests.kubernetes.faults.proxy import FaultyProxy

Json = dict[str, Any]
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
SHORT = "NotEnoughResources: "


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """One node of four cores."""
    await install_volcano(cluster)
    await cluster.create(node("n1"))
    async with followed(redis_url, short_dir, cluster, control_plane.admin.kubeconfig) as running:
        yield running


def wide(size: int) -> list[Json]:
    return [pod_group("wide", size), *(pod(f"wide-{i}", group="wide") for i in range(size))]


async def scheduled(cluster: ApiClient, name: str, words: str = "") -> Json | None:
    """The condition PodScheduled of a pod, where it says False, and these words."""
    result = await cluster.get(f"/api/v1/namespaces/default/pods/{name}")
    conditions = result["status"].get("conditions") or []
    waits = (c for c in conditions if (c["type"], c["status"]) == ("PodScheduled", "False"))
    return next((c for c in waits if words in c["message"]), None)


async def group_status(cluster: ApiClient, name: str = "wide") -> Json:
    group = await cluster.get(f"{GROUPS}/{name}")
    status: Json = group.get("status") or {}
    return status


async def events_of(cluster: ApiClient, kind: str, name: str) -> list[Json]:
    listed = await cluster.get("/api/v1/namespaces/default/events")
    return [
        event
        for event in listed["items"]
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
    ]


async def test_a_waiting_gang_shows_the_reason_and_its_outcome(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(*wide(6))

    async def refused() -> Json | None:
        status = await group_status(cluster)
        conditions = status.get("conditions") or [{"message": ""}]
        return status if conditions[0]["message"].startswith(SHORT) else None

    status = await until(refused)  # not that some pods are missing, before all had come
    (condition,) = status["conditions"]
    assert status["phase"] in ("Pending", "Inqueue") and condition["type"] == "Unschedulable"
    why = condition["message"]
    assert "short by 2 cpu" in why
    reasons = Counter(
        [(await until(partial(scheduled, cluster, f"wide-{i}", why)))["reason"] for i in range(6)]
    )
    assert reasons == {"Schedulable": 4, "Unschedulable": 2}, "an autoscaler adds room for two"

    async def find_event() -> Json | None:  # that pods were missing may have been told before
        events = await events_of(cluster, "PodGroup", "wide")
        return next((e for e in events if e["message"] == why), None)

    assert (await until(find_event))["reason"] == "Unschedulable"

    await cluster.create(node("n2"))
    await quadrant.until_bound(*(f"wide-{i}" for i in range(6)))

    async def placed() -> Json | None:
        status = await group_status(cluster)
        types = [c["type"] for c in status.get("conditions") or []]
        return status if types == ["Unschedulable", "Scheduled"] else None

    status = await until(placed)
    assert status["phase"] in ("Inqueue", "Running")
    waited, ready = status["conditions"]
    assert waited["transitionID"] != ready["transitionID"]
    assert waited["lastTransitionTime"] <= ready["lastTransitionTime"]

    async def says_both() -> bool:  # the event is a write of its own, and may be the later one
        words = {e["reason"] for e in await events_of(cluster, "PodGroup", "wide")}
        assert words <= {"Unschedulable", "Scheduled"}, "in Volcano's words"
        return len(words) == 2

    await until(says_both)
    for pod_name, node_name in (await quadrant.nodes_of()).items():
        text = f"Successfully assigned default/{pod_name} to {node_name}"
        await until(partial(_has_event, cluster, pod_name, "Scheduled", text))


async def _has_event(cluster: ApiClient, pod_name: str, reason: str, text: str) -> bool:
    events = await events_of(cluster, "Pod", pod_name)
    return any((e["reason"], e["message"]) == (reason, text) for e in events)


async def _events(cluster: ApiClient, kind: str, name: str) -> list[Json] | None:
    return await events_of(cluster, kind, name) or None


async def _event_says(cluster: ApiClient, name: str, words: str) -> bool:
    """Whether an event of the pod says so; an earlier one may say that its gang is incomplete."""
    events = await events_of(cluster, "Pod", name)
    return any(words in str(event) for event in events)


async def test_kubectl_describe_answers_why_a_pod_waits(
    quadrant: Followed, cluster: ApiClient, control_plane: ControlPlane
) -> None:
    program = kubectl()
    if program is None:
        pytest.skip("no kubectl on PATH and none named by $KUBECTL")
    await cluster.create(*wide(6), pod("alone", cpu=9))
    for name, words in (("wide-5", "short by 2 cpu"), ("alone", "one task asks 9 cpu")):
        await until(partial(_event_says, cluster, name, words))
        result = await asyncio.to_thread(
            subprocess.run,
            [program, "describe", "pod", name],
            env={**os.environ, "KUBECONFIG": str(control_plane.admin.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert "FailedScheduling" in result.stdout and words in result.stdout, result.stdout


async def test_nothing_is_written_where_nothing_changes(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(pod("alone", cpu=9))
    await until(lambda: scheduled(cluster, "alone"))
    await until(partial(_events, cluster, "Pod", "alone"))
    before = (await quadrant.pods())["alone"]["metadata"]["resourceVersion"]
    # Turns, ends and changes of others meanwhile.
    await cluster.create(pod("small"))
    await quadrant.until_bound("small")
    await asyncio.sleep(1.0)
    assert (await quadrant.pods())["alone"]["metadata"]["resourceVersion"] == before
    assert len(await events_of(cluster, "Pod", "alone")) == 1


async def test_gangs_come_before_single_pods_and_each_tick_writes_no_more_than_its_limit(
    quadrant: Followed,
    cluster: ApiClient,
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nothing is written before it is known of everything why it waits.
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 0)
    singles = [pod(f"single-{i}", cpu=9) for i in range(8)]
    await cluster.create(*singles)
    await cluster.create(*wide(6))
    expected = {Reason.EXCEEDS_NODE_CAPACITY: len(singles), Reason.NOT_ENOUGH_RESOURCES: 1}
    await until(lambda: _reasons(quadrant) == expected)
    before = len(_status_writes(control_plane))
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 1)
    await until(lambda: len(_status_writes(control_plane)) >= before + 4)
    monkeypatch.setattr(statuses, "WRITES_A_TICK", WRITES_A_TICK)

    async def all_have_conditions() -> bool:
        pods = (await quadrant.pods()).values()
        return all(p["status"].get("conditions") for p in pods)

    await until(all_have_conditions)
    first = _status_writes(control_plane)[before : before + 4]
    # A tick that was under way when the limit rose may have collected the single pods alone.
    assert ("podgroups", "wide") in [(resource, name) for _, resource, name in first[:2]]
    for (earlier, resource, _), (later, *_) in pairwise(first):
        # A PodGroup with something new to say is written before its pod, in the pod's tick.
        in_one_tick = later - earlier < timedelta(seconds=statuses.TICK_SECONDS)
        assert resource == "podgroups" or not in_one_tick


def _reasons(quadrant: Followed) -> Counter[Reason]:
    """Why the jobs wait, as far as that is known."""
    model = quadrant.service.service.objects.read_model()
    return Counter(why.reason for job in quadrant.jobs() if (why := model.why(job.job.jid)))


def _status_writes(control_plane: ControlPlane) -> list[tuple[datetime, str, str]]:
    """(time, resource, name) of the patches of pods and PodGroups, in order."""
    return [
        (
            datetime.fromisoformat(entry["requestReceivedTimestamp"]),
            entry["objectRef"]["resource"],
            entry["objectRef"]["name"],
        )
        for entry in entries(control_plane.audit_log)
        if entry["verb"] == "patch" and entry["objectRef"]["resource"] in ("pods", "podgroups")
    ]


async def _conditions_of_group(cluster: ApiClient) -> Any:
    return (await group_status(cluster)).get("conditions") or None


async def test_an_object_that_is_not_understood_says_why_in_an_event(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(pod("odd", group="No Name"), pod("good"))
    await quadrant.until_bound("good")
    (event,) = await until(partial(_events, cluster, "Pod", "odd"))
    assert event["reason"] == "Misconfigured" and "group-name" in event["message"]


async def test_an_event_that_the_server_forgot_is_written_anew(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps them for an hour."""
    monkeypatch.setattr(statuses, "LOOK_AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 0.2)
    await cluster.create(pod("alone", cpu=9))
    (event,) = await until(partial(_events, cluster, "Pod", "alone"))
    path = "/api/v1/namespaces/default/events/" + event["metadata"]["name"]
    await cluster.delete(path)
    # What is larger than every node waits for a larger one: each node changes the sentence.
    for cpu in range(5, 9):
        await cluster.create(node(f"with-{cpu}", cpu=cpu))
        await until(partial(scheduled, cluster, "alone", f"the largest node has {cpu}"))
    (again,) = await until(partial(_events, cluster, "Pod", "alone"))
    assert again["metadata"]["uid"] != event["metadata"]["uid"]


@pytest.mark.parametrize(
    "effect", [Answer(429), Answer(500), LoseAnswer(), LoseRequest()], ids=lambda e: repr(e)
)
async def test_a_write_that_fails_is_made_again_and_leaves_one_event(  # noqa: PLR0917
    cluster: ApiClient,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    short_dir: Path,
    effect: Effect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_queue, "PAUSE_SECONDS", 0.2)
    await install_volcano(cluster)
    await cluster.create(node("n1"))
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig):
        patches = proxy.inject(effect, method="PATCH", part="/status", times=3)
        events = proxy.inject(effect, method="POST", part="/events", times=3)
        await cluster.create(pod("alone", cpu=9))
        await until(lambda: scheduled(cluster, "alone"))
        await until(partial(_events, cluster, "Pod", "alone"))
        await until(lambda: patches.met == events.met == 3)
        await asyncio.sleep(0.5)
        assert len(await events_of(cluster, "Pod", "alone")) == 1
