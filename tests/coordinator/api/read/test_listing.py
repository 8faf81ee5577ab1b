"""Lists and single objects over HTTP, beyond what kubectl sends."""

from __future__ import annotations

import base64
from itertools import product

import orjson
import pytest

from coordinator.api.read import list as listing
from coordinator.api.read.query import Token
from tests.builders.objects import node
from tests.coordinator.api.client import PODS, TABLE, Client, Json
from tests.coordinator.api.conftest import running_pod
from tests.end_to_end.one_process.harness import Running, submit

NAMES = ["big", "p1", "p2", "train-w-0", "train-w-1", "train-w-2"]


async def test_a_list_and_its_pages(client: Client) -> None:
    assert await client.names("/api/v1/pods") == NAMES
    first = await client.get(PODS, limit=4)
    assert len(first["items"]) == 4
    assert first["metadata"]["remainingItemCount"] == 2
    token = first["metadata"]["continue"]
    rest = await client.get(PODS, limit=4, **{"continue": token})
    assert [o["metadata"]["name"] for o in rest["items"]] == NAMES[4:]
    assert "continue" not in rest["metadata"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_pages_that_a_selector_thins_out(client: Client) -> None:
    for limit in (1, 2, 3):
        results: list[str] = []
        token = ""
        while True:
            query = {"limit": str(limit), "labelSelector": "tier=train", "continue": token}
            page = await client.get(PODS, **query)
            assert len(page["items"]) <= limit
            assert "remainingItemCount" not in page["metadata"]
            results += [o["metadata"]["name"] for o in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert results == NAMES[3:], limit


@pytest.mark.parametrize("accept", ["application/json", TABLE])
async def test_a_long_list_comes_in_pieces_and_is_the_same(
    client: Client, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await client.get(PODS, accept=accept)
    monkeypatch.setattr(listing, "PIECE", 2)
    pieces = await client.get(PODS, accept=accept)
    assert _without_times(pieces) == _without_times(whole)
    some = await client.get(PODS, accept=accept, limit=5)
    assert len(some["items"] if "items" in some else some["rows"]) == 5
    assert some["metadata"]["remainingItemCount"] == 1
    none = await client.get(PODS, accept=accept, labelSelector="tier=nothing")
    assert none.get("items", none.get("rows")) == []


def _without_times(answer: Json) -> Json:
    """Between two answers a second may end, and an object of another kind may change."""
    del answer["metadata"]["resourceVersion"]
    for at, column in enumerate(answer.get("columnDefinitions", ())):
        if column["name"] == "Age":
            for row in answer["rows"]:
                row["cells"][at] = ""
    return answer


async def test_one_name_is_found_without_a_walk(
    client: Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walked(*_: object, **__: object) -> None:
        raise AssertionError("it was looked for in a list")

    monkeypatch.setattr(service.service.objects, "list", walked)
    assert await client.names(PODS, fieldSelector="metadata.name=p1") == ["p1"]
    assert await client.names(PODS, fieldSelector="metadata.name=p1,status.phase=Failed") == []
    assert await client.names(PODS, fieldSelector="metadata.name=no") == []
    assert await client.names("/api/v1/nodes", fieldSelector="metadata.name=n2") == ["n2"]


async def test_a_token_of_nobody(client: Client) -> None:
    for token in ("xx", "ä", base64.urlsafe_b64encode(b"[1,2]").decode(), "e30="):
        body = await client.get(PODS, code=400, **{"continue": token})
        assert "begin the list anew" in body["message"], token


async def test_a_token_of_an_earlier_coordinator(client: Client) -> None:
    token = base64.urlsafe_b64encode(orjson.dumps([1, 17, "|x"])).decode()
    body = await client.get(PODS, code=410, **{"continue": token})
    assert (body["reason"], body["code"]) == ("Expired", 410)


async def test_versions(client: Client, service: Running) -> None:
    now = int((await client.get("/api/v1/nodes"))["metadata"]["resourceVersion"])
    exact = {"resourceVersionMatch": "Exact", "resourceVersion": str(now)}
    assert await client.names("/api/v1/nodes", **exact) == ["n1", "n2"]
    older = {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}
    assert await client.names("/api/v1/nodes", **older) == ["n1", "n2"]
    await submit(service, node("n3"))
    assert await client.names("/api/v1/nodes", resourceVersion="0") == ["n1", "n2", "n3"]
    body = await client.get("/api/v1/nodes", code=410, **exact)
    assert body["reason"] == "Expired"
    await client.get("/api/v1/nodes", code=410, resourceVersion=str(now + 10**6))


WRONG_PARAMETERS = {
    "limit=-1": "limit '-1'",
    "limit=ten": "limit 'ten'",
    "resourceVersion=x": "resourceVersion 'x'",
    "resourceVersionMatch=Exact": "needs a resourceVersion",
    "resourceVersionMatch=Newest&resourceVersion=1": "write Exact or NotOlder",
    "watch=maybe": "watch 'maybe' is no boolean",
    "includeObject=All": "includeObject",
    "labelSelector=(": "labelSelector",
    "watch=1&sendInitialEvents=true": "resourceVersionMatch=NotOlderThan",
}
"""Query -> part of the message."""


async def test_a_wrong_parameter(client: Client, subtests: pytest.Subtests) -> None:
    for query, message in WRONG_PARAMETERS.items():
        with subtests.test(query):
            body = await client.get(f"{PODS}?{query}", code=400)
            assert (body["kind"], body["reason"]) == ("Status", "BadRequest")
            assert message in body["message"]


async def test_one_object_in_every_form(client: Client) -> None:
    whole = await client.get(f"{PODS}/p1")
    assert whole["spec"]["containers"]
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    part = await client.get(f"{PODS}/p1", accept=accept)
    assert part == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": whole["metadata"],
    }
    table = await client.get(f"{PODS}/p1", accept=TABLE)
    assert [row["cells"][0] for row in table["rows"]] == ["p1"]
    assert table["rows"][0]["object"] == part
    table = await client.get(f"{PODS}/p1", accept=TABLE, includeObject="Object")
    assert table["rows"][0]["object"] == whole
    table = await client.get(f"{PODS}/p1", accept=TABLE, includeObject="None")
    assert table["rows"][0]["object"] is None
    body = await client.get(f"{PODS}/p1", accept="text/html", code=406)
    assert body["reason"] == "NotAcceptable"
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    parts = await client.get(PODS, accept=accept)
    assert parts["kind"] == "PartialObjectMetadataList"
    assert {part["kind"] for part in parts["items"]} == {"PartialObjectMetadata"}


async def test_unknown_objects_and_kinds_are_answered_404(client: Client) -> None:
    body = await client.get(f"{PODS}/no", code=404)
    assert body["details"] == {"name": "no", "kind": "pods"}
    body = await client.get(
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/no", code=404
    )
    assert body["message"] == 'podgroups.scheduling.volcano.sh "no" not found'
    assert (await client.get("/api/v1/wheels", code=404))["kind"] == "Status"
    assert (await client.get("/apis/none/v1", code=404))["kind"] == "Status"


async def test_a_url_has_an_end(client: Client) -> None:
    body = await client.get(PODS, code=414, labelSelector="a" * 5000)
    assert body["reason"] == "RequestURITooLong"


async def test_other_namespaces_are_not_shown(client: Client, service: Running) -> None:
    await submit(service, running_pod("p9"))
    assert await client.names("/api/v1/namespaces/default/pods") == []
    assert await client.get("/api/v1/namespaces/default/pods/p9", code=404)


async def test_a_token_of_another_list_is_no_error_of_the_server(
    client: Client, service: Running
) -> None:
    places, kinds = ("x", "zz|x", "1|1.2", "1|a#b", "-1|a-#9"), ("pods", "events", "namespaces")
    for kind, place in product(kinds, places):
        query = {"limit": "1", "continue": Token(service.service.objects.version, place).text()}
        async with client.session.get(f"/api/v1/{kind}", params=query) as answer:
            body = orjson.loads(await answer.read())
            assert answer.status in (200, 400), (kind, place, body)
            assert place != "x" or body["reason"] == "BadRequest", kind
