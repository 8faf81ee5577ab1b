"""The double of the API server answers random requests as the real one does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install
from tests.examples import examples
from tests.kubernetes.api_server.served import served_double
from tests.kubernetes.api_server.side import Side, differences, ranked
from tests.kubernetes.api_server.steps import (
    COLLECTIONS,
    NODES,
    PODS,
    Json,
    Step,
    steps,
)

STEPS = 150
SEEDS = range(examples(15))
LAST = "zz-last"
"""The object of a kind with which its watches end."""
WATCHES: tuple[tuple[str, dict[str, str]], ...] = (
    *((collection, {}) for collection in COLLECTIONS),
    ("/api/v1/pods", {"fieldSelector": "spec.nodeName!="}),
    (PODS, {"fieldSelector": "status.phase=Running"}),
    (PODS, {"labelSelector": "app=web"}),
)


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_requests_have_the_same_answers(cluster: ApiClient, seed: int) -> None:
    await install(cluster, *VOLCANO)
    async with served_double() as (_, edge, of_double):
        sides = [Side("real", cluster), Side("double", of_double)]
        begins = [await side.version() for side in sides]
        middle: list[str] = []
        for number, step in enumerate(steps(Random(seed), STEPS)):
            if number == STEPS // 2:
                middle = [await side.version() for side in sides]
            real, double = [await side.ask(step) for side in sides]
            assert not edge.failures, edge.failures[0]
            _same(f"{number}: {step}", real.code, double.code)
        await _end_watches(sides)
        watched = [
            [await _watched(side, at) for at in (begin, half)]
            for side, begin, half in zip(sides, begins, middle, strict=True)
        ]
        _compare(sides, watched)


async def _end_watches(sides: list[Side]) -> None:
    """An object that each of the watches sees."""
    about: Json = {"metadata": {"name": LAST, "labels": {"app": "web"}}}
    for collection in COLLECTIONS:
        for side in sides:
            made = await side.ask(Step("POST", collection, _last_of(collection) | about))
            assert made.code == 200, (side.name, side.answers[-2:])
    status = {"status": {"phase": "Running"}}
    target = {"kind": "Node", "name": "n1"}
    for side in sides:
        await side.ask(
            Step("POST", f"{PODS}/{LAST}/binding", {"metadata": {"name": LAST}, "target": target})
        )
        await side.ask(
            Step("PATCH", f"{PODS}/{LAST}/status", status, form="application/merge-patch+json")
        )


def _last_of(collection: str) -> Json:
    match collection.rpartition("/")[2]:
        case "pods":
            return {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        case "events":
            involved = {"kind": "Pod", "name": LAST, "namespace": "default"}
            return {"involvedObject": involved, "reason": "r", "message": "m", "type": "Normal"}
        case "poddisruptionbudgets":
            labels = {"matchLabels": {"app": "nobody"}}
            return {"spec": {"minAvailable": 1, "selector": labels}}
        case "priorityclasses":
            return {"value": 1}
        case "podgroups":
            return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {}}
        case "queues":
            return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {}}
        case "leases" | "nodes":
            return {"spec": {}}
        case other:
            raise AssertionError(other)


async def _watched(side: Side, version: str) -> list[list[Any]]:
    return [
        [*map(list, await side.watched(path, version, LAST, **query))] for path, query in WATCHES
    ]


def _compare(sides: list[Side], watched: list[Any]) -> None:
    ranks = [side.ranks() for side in sides]
    answers = [
        [ranked(answered.body, rank) for answered in side.answers]
        for side, rank in zip(sides, ranks, strict=True)
    ]
    steps_sent = [str(answered.step) for answered in sides[0].answers]
    _same("answers", *(dict(enumerate(zip(steps_sent, side, strict=True))) for side in answers))
    events = [ranked(value, rank) for value, rank in zip(watched, ranks, strict=True)]
    _same("watches", *events)


def _same(what: str, real: Any, double: Any) -> None:
    found = list(differences(real, double))
    assert not found, "\n".join([what, *found[:20]])


async def test_pages_are_of_one_moment(cluster: ApiClient) -> None:
    """Also where objects come and go between two pages."""
    pages: list[Any] = []
    async with served_double() as (_, _, of_double):
        for side in (Side("real", cluster), Side("double", of_double)):
            for name in "abcde":
                node = {"metadata": {"name": name}, "spec": {}}
                assert (await side.ask(Step("POST", NODES, node))).code == 200
            found, token = [], ""
            while True:
                query = {"limit": "2"} | ({"continue": token} if token else {})
                _, body = await side.raw("GET", NODES, query=query)
                metadata = body["metadata"]
                found.append(
                    (
                        [item["metadata"]["name"] for item in body["items"]],
                        metadata.get("remainingItemCount"),
                    )
                )
                token = metadata.get("continue", "")
                if not token:
                    break
                await side.ask(Step("DELETE", f"{NODES}/d"))
                await side.ask(Step("POST", NODES, {"metadata": {"name": "bb"}, "spec": {}}))
            pages.append(found)
    _same("pages", *map(_as_lists, pages))
    assert [names for names, _ in pages[1]] == [["a", "b"], ["c", "d"], ["e"]]


async def test_old_versions_are_too_old_after_a_restart_and_a_compaction(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    answers: list[Any] = []
    async with served_double() as (server, _, of_double):

        def restart_real() -> None:
            control_plane.api_server.kill()
            control_plane.compact()
            control_plane.start()

        def restart_double() -> None:
            server.store.restart()
            server.store.compact()

        sides = (Side("real", cluster), restart_real), (Side("double", of_double), restart_double)
        for side, restart in sides:
            for name in ("a", "b"):
                await side.ask(Step("POST", NODES, {"metadata": {"name": name}, "spec": {}}))
            _, page = await side.raw("GET", NODES, query={"limit": "1"})
            before = await side.version()
            await side.ask(Step("POST", NODES, {"metadata": {"name": "c"}, "spec": {}}))
            restart()
            token = page["metadata"]["continue"]
            code, rest = await side.raw("GET", NODES, query={"limit": "1", "continue": token})
            watched = await side.watched("/api/v1/nodes", before, "none")
            answers.append([code, rest["reason"], rest["code"], *map(list, watched)])
    _same("what is too old", *answers)
    assert answers[0][:3] == [410, "Expired", 410]


def _as_lists(pages: list[Any]) -> list[list[Any]]:
    return [list(page) for page in pages]
