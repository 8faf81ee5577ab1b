"""One job, one word, one sentence, the same amounts: wherever it is asked about."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from coordinator.cli.objects.description import waiting_for
from coordinator.objects.context import NOT_TRIED
from coordinator.service.metrics.pending_counts import reasons_in_steps, waiting_in_steps
from shared.ledger.redis.server import EmbeddedServer
from shared.slices import at_once
from tests.builders.objects import Item
from tests.conftest import flush
from tests.coordinator.explain.cluster import asking, explained
from tests.coordinator.explain.random_clusters import RandomCluster, at_rest, clusters
from tests.end_to_end.one_process.harness import Running, running, submit
from tests.examples import examples

BATCH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
AMOUNTS = ("requested", "available", "short")
UNTRIED = {reason.value for reason in NOT_TRIED}


@pytest.mark.timeout(400)  # a service for each of the clusters
@given(cluster=clusters())
@settings(
    max_examples=examples(12),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_answer_about_a_job_is_the_same(
    cluster: RandomCluster, tmp_path: Path, embedded_server: EmbeddedServer
) -> None:
    flush(embedded_server)
    asyncio.run(_compare(cluster, tmp_path, embedded_server.url))


@dataclass(frozen=True, slots=True)
class _ServiceAnswers:
    explanations: dict[str, Item]
    objects: dict[str, list[Item]]
    top: Counter[str]
    unadmitted: Counter[str]


async def _compare(cluster: RandomCluster, path: Path, url: str) -> None:
    async with running(url, path) as service:
        await submit(service, *cluster.nodes, *cluster.queues)
        await submit(service, *cluster.jobs)
        names = [job["metadata"]["name"] for job in cluster.jobs]
        for _ in range(20):
            await at_rest(service)
            before = _turns(service)
            answers = await _answers(service, names)
            # A turn in between counts as if it were placed while it is open.
            if _turns(service) == before:
                break
    _same_answers(answers)


def _turns(service: Running) -> tuple[int, int]:
    status = service.service.core.status()
    return sum(status["outcomes"].values()), status["open_turns"]


async def _answers(service: Running, names: list[str]) -> _ServiceAnswers:
    explanations = {name: await explained(service, name) for name in names}
    objects = {path: await _items(service, path) for path in (BATCH, GROUPS, PODS, EVENTS)}
    core = service.service.core
    slots = service.service.intake.registry.slots.names
    top = at_once(reasons_in_steps(core, names=slots))
    unadmitted: Counter[str] = Counter()
    waiting = at_once(waiting_in_steps(core, core.order.now, names=slots))
    for (_, reason), count in waiting.jobs.items():
        unadmitted[reason] += count
    return _ServiceAnswers(explanations, objects, Counter(top), unadmitted)


def _same_answers(answers: _ServiceAnswers) -> None:
    explanations, objects = answers.explanations, answers.objects
    for name, explanation in explanations.items():
        pods = [pod for pod in objects[PODS] if _job_of_pod(pod) == name]
        groups = [group for group in objects[GROUPS] if _owner(group) == name]
        (job,) = [job for job in objects[BATCH] if job["metadata"]["name"] == name]
        if explanation["reason"] is None:
            assert not any(map(waiting_for, [job, *groups, *pods]))
            continue
        _same_everywhere(explanation, job, groups, pods)
        _same_events(explanation, objects[EVENTS], [job, *groups, *pods])
    words = Counter(e["reason"] for e in explanations.values() if e["reason"] and not e["places"])
    reports = {name: (e["reason"], e["message"]) for name, e in explanations.items()}
    assert words == answers.unadmitted, reports
    assert words <= answers.top, reports


async def _items(service: Running, path: str) -> list[Item]:
    async with asking(service) as client, client.get(path) as answer:
        items: list[Item] = (await answer.json())["items"]
        return items


def _job_of_pod(pod: Item) -> str:
    return str(pod["metadata"]["labels"]["volcano.sh/job-name"])


def _owner(group: Item) -> str:
    return str(group["metadata"]["ownerReferences"][0]["name"])


def _same_everywhere(explanation: Item, job: Item, groups: list[Item], pods: list[Item]) -> None:
    word, message = explanation["reason"], explanation["message"]
    sentence = f"{word}: {message}"
    assert (job["status"]["state"]["reason"], job["status"]["state"]["message"]) == (word, message)
    for value in (job, *groups):
        (first_explanation,) = value["status"]["explanations"]
        amounts = {name: first_explanation.get(name, {}) for name in AMOUNTS}
        assert (first_explanation["reason"], first_explanation["message"]) == (word, message)
        assert amounts == {name: explanation[name] for name in AMOUNTS}
        assert waiting_for(value) == sentence
        unschedulable = [c for c in value["status"].get("conditions", []) if "Un" in c["type"]]
        assert all(c["message"] == sentence for c in unschedulable)
    waiting = [pod for pod in pods if pod["status"]["phase"] == "Pending" and _unplaced(pod)]
    assert waiting
    for pod in waiting:
        assert pod["status"]["conditions"][0]["message"] == sentence
        assert pod["metadata"]["annotations"]["quadrant.dev/reason"] == word
        assert waiting_for(pod) == sentence


def _unplaced(pod: Item) -> bool:
    return bool(pod["status"]["conditions"][0]["status"] == "False")


def _same_events(explanation: Item, events: list[Item], objects: list[Item]) -> None:
    if explanation["reason"] in UNTRIED:
        return
    uids = {value["metadata"]["uid"] for value in objects}
    failures: list[Any] = [
        event
        for event in events
        if event["reason"] in ("FailedScheduling", "Unschedulable")
        and event["involvedObject"]["uid"] in uids
    ]
    newest = max(int(event["metadata"]["resourceVersion"]) for event in failures)
    messages = {
        event["message"]
        for event in failures
        if int(event["metadata"]["resourceVersion"]) == newest
    }
    assert messages == {f"{explanation['reason']}: {explanation['message']}"}
