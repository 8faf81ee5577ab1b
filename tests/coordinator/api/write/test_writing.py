"""One object over HTTP: what is answered to creating, changing and deleting it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.errors import Problem
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import QUEUE
from tests.builders.objects import job, node, pod, pod_group, queue
from tests.coordinator.api.write.behind import WriteClient, behind

pytestmark = pytest.mark.timeout(100)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def causes(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["field"], cause["reason"]) for cause in answer["details"]["causes"]]


async def test_a_pod_is_not_moved_by_writing_another_node(client: WriteClient) -> None:
    """The node it has may be repeated; another one is refused, not dropped unseen."""
    await client.create(pod())
    document = client.seen.documents[Key("Pod", "ns", "p")]
    for here in ("", "n1"):
        client.seen.nodes = {"p": here} if here else {}
        for form in (MERGE, STRATEGIC, APPLY):
            for node_name in ("n1", "n2"):
                spec = pod()["spec"] | {"nodeName": node_name}
                patch = (
                    pod() | {"spec": spec} if form == APPLY else {"spec": {"nodeName": node_name}}
                )
                code, answer = await client.send(
                    "PATCH", "Pod/p", patch, type=form, fieldManager="test", dryRun="All"
                )
                assert code == (200 if node_name == here else 422), answer
                if code == 422:
                    assert causes(answer) == [("spec.nodeName", "FieldValueForbidden")]
                    assert "leave it out" in answer["message"]
        for node_name in ("n1", "n2"):
            sent = pod() | {"spec": pod()["spec"] | {"nodeName": node_name}}
            code, answer = await client.send("PUT", "Pod/p", sent)
            assert code == (200 if node_name == here else 422), answer
    body = client.seen.documents[Key("Pod", "ns", "p")].object()
    assert "nodeName" not in body["spec"]
    assert body["spec"] == document.object()["spec"]


# --- create -----------------------------------------------------------------------------------


async def test_create_answers_with_the_object(client: WriteClient) -> None:
    for obj in (node(), queue(), pod_group(), pod(), job()):
        code, answer = await client.create(obj)
        assert code == 201, answer
        assert answer["kind"] == obj["kind"]
        assert answer["metadata"]["uid"]
        assert answer["metadata"]["managedFields"][0]["manager"] == "test"
        assert answer["spec"] == obj["spec"]


async def test_create_in_yaml(client: WriteClient) -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: y}\n"
    code, answer = await client.send("POST", "Queue", text, type="application/yaml")
    assert (code, answer["metadata"]["name"]) == (201, "y")
    code, answer = await client.send("POST", "Queue", text + "kind: Queue", type="application/yaml")
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert "line 4" in answer["message"]
    assert "written twice" in answer["message"]


async def test_create_again_and_while_it_goes(client: WriteClient) -> None:
    await client.create(pod())
    code, answer = await client.create(pod())
    assert (code, answer["reason"]) == (409, "AlreadyExists")
    assert answer["message"] == 'pods "p" already exists'
    code, answer = await client.send("DELETE", "Pod/p")
    assert (code, answer["kind"]) == (200, "Pod")
    assert answer["metadata"]["deletionTimestamp"]
    code, answer = await client.create(pod())
    assert (code, answer["reason"]) == (409, "AlreadyExists")
    assert "being deleted" in answer["message"]


async def test_the_namespace_and_kind_of_the_path(client: WriteClient) -> None:
    bare = {"metadata": {"name": "a"}, "spec": pod()["spec"]}
    code, answer = await client.send("POST", "Pod", bare)
    assert (code, answer["metadata"]["namespace"]) == (201, "ns")
    for wrong in (
        pod("b") | {"metadata": {"name": "b", "namespace": "other"}},
        pod("b") | {"kind": "Queue"},
        pod("b") | {"apiVersion": "v2"},
        pod("b") | {"metadata": 5},
    ):
        code, answer = await client.send("POST", "Pod", wrong)
        assert (code, answer["reason"]) == (400, "BadRequest"), answer
    code, answer = await client.send(
        "POST", "Queue", queue() | {"metadata": {"name": "q", "namespace": "ns"}}
    )
    assert code == 400


async def test_a_name_is_made(client: WriteClient) -> None:
    obj = pod() | {"metadata": {"generateName": "made-"}}
    names = set()
    for _ in range(3):
        code, answer = await client.create(obj)
        assert code == 201
        names.add(answer["metadata"]["name"])
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)
    code, answer = await client.create(pod() | {"metadata": {}})
    assert (code, causes(answer)) == (422, [("metadata.name", "FieldValueRequired")])


@pytest.mark.parametrize(
    ("obj", "field", "reason", "says"),
    [
        (pod(nope=1), "spec.nope", "FieldValueForbidden", "unknown field"),
        (pod(priority="x"), "spec.priority", "FieldValueInvalid", "Invalid value: 'x'"),
        (pod(nodeName="n1"), "spec.nodeName", "FieldValueNotSupported", "leave it out"),
        (job(tasks=[{"name": "a"}]), "spec.tasks[0].template", "FieldValueRequired", "missing"),
        (pod("A_B"), "metadata.name", "FieldValueInvalid", "not a valid name"),
    ],
)
async def test_an_invalid_field_is_named_with_its_reason(
    client: WriteClient, obj: dict[str, Any], field: str, reason: str, says: str
) -> None:
    for query in ({}, {"dryRun": "All"}, {"fieldValidation": "Ignore"}):
        code, answer = await client.create(obj, **query)
        assert (code, answer["reason"]) == (422, "Invalid")
        assert causes(answer) == [(field, reason)]
        assert says in answer["message"]
        name = obj["metadata"]["name"]
        assert answer["details"]["name"] == name
        assert answer["message"].startswith(
            (f'Pod "{name}" is invalid: ', f'Job.batch.volcano.sh "{name}" is invalid: ')
        )
    assert not client.seen.documents.keys() - {Key("Queue", "", "default")}


async def test_an_unknown_priority_class_is_a_warning(client: WriteClient) -> None:
    code, _ = await client.create(pod(priorityClassName="unheard-of"))
    assert code == 201
    (text,) = client.warnings
    assert text.startswith('299 - "')
    assert "priorityClassName: unheard-of does not exist" in text


# --- replace ----------------------------------------------------------------------------------


async def test_replace_with_a_changed_copy_of_the_read_object(client: WriteClient) -> None:
    _, read = await client.create(queue(weight=1))
    read["spec"]["weight"] = 5
    code, new = await client.send("PUT", "Queue/q", read)
    assert (code, new["spec"]["weight"]) == (200, 5)
    assert new["metadata"]["generation"] == 2
    code, answer = await client.send("PUT", "Queue/q", read)  # the version is old now
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "has been modified" in answer["message"]
    read["metadata"] |= {"resourceVersion": "", "uid": "another"}
    code, answer = await client.send("PUT", "Queue/q", read)
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "UID" in answer["message"]


async def test_replace_needs_an_object_and_its_name(client: WriteClient) -> None:
    assert (await client.send("PUT", "Queue/q", queue()))[0] == 404
    await client.create(queue())
    code, answer = await client.send("PUT", "Queue/q", queue("other"))
    assert (code, answer["reason"]) == (400, "BadRequest")


async def test_the_same_again_is_no_change(client: WriteClient) -> None:
    _, read = await client.create(pod())
    code, again = await client.send("PUT", "Pod/p", read)
    assert (code, again) == (200, read)


async def test_a_pod_takes_labels_and_nothing_else(client: WriteClient) -> None:
    _, read = await client.create(pod())
    read["metadata"]["labels"] = {"a": "b"}
    code, new = await client.send("PUT", "Pod/p", read)
    assert (code, new["metadata"]["labels"], new["metadata"]["generation"]) == (200, {"a": "b"}, 1)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    code, answer = await client.send("PUT", "Pod/p", new)
    assert (code, causes(answer)) == (422, [("spec", "FieldValueForbidden")])
    assert "labels and annotations can change" in answer["message"]


# --- patch ------------------------------------------------------------------------------------


async def test_the_four_languages(client: WriteClient) -> None:
    await client.create(pod())
    for type, patch in (
        (MERGE, {"metadata": {"labels": {"a": "1", "b": "1"}}}),
        (STRATEGIC, {"metadata": {"labels": {"b": None, "c": "1"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/d", "value": "1"}]),
    ):
        code, answer = await client.send("PATCH", "Pod/p", patch, type=type)
        assert code == 200, answer
    assert answer["metadata"]["labels"] == {"a": "1", "c": "1", "d": "1"}
    patch = pod() | {"metadata": {"name": "p", "labels": {"a": "1", "e": "1"}}}
    code, answer = await client.send("PATCH", "Pod/p", patch, type=APPLY, fieldManager="me")
    assert code == 200, answer
    assert answer["metadata"]["labels"] == {"a": "1", "c": "1", "d": "1", "e": "1"}
    managers = {m["manager"]: m["operation"] for m in answer["metadata"]["managedFields"]}
    assert managers == {"test": "Update", "me": "Apply"}


@pytest.mark.parametrize(
    ("type", "patch", "code"),
    [
        (MERGE, b"{", 400),
        (MERGE, [], 400),
        (STRATEGIC, {"spec": {"$patch": "x"}}, 400),
        (JSON_PATCH, {}, 400),
        (JSON_PATCH, [{"op": "test", "path": "/spec/x", "value": 1}], 422),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 5}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata"}], 200),
        (MERGE, {"metadata": {"name": "other"}}, 400),
        (MERGE, {"metadata": {"namespace": "other"}}, 400),
        (MERGE, {"kind": "Queue"}, 400),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
        (MERGE, {"metadata": {"managedFields": [5]}}, 422),
        (MERGE, {"spec": {"nope": 1}}, 422),
        ("application/json", {}, 415),
        ("text/plain", {}, 415),
    ],
)
async def test_a_patch_that_cannot_be(
    client: WriteClient, type: str, patch: Any, code: int
) -> None:
    await client.create(pod())
    await client.send("PATCH", "Pod/p", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    result, answer = await client.send("PATCH", "Pod/p", patch, type=type)
    assert result == code, answer


async def test_patch_of_nothing(client: WriteClient) -> None:
    code, answer = await client.send("PATCH", "Pod/p", {}, type=MERGE)
    assert (code, answer["reason"]) == (404, "NotFound")


async def test_apply_creates_and_conflicts(client: WriteClient) -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nspec: {weight: %d}\n"
    code, answer = await client.send("PATCH", "Queue/q", text % 1, type=APPLY)
    assert (code, causes(answer)) == (422, [("fieldManager", "FieldValueRequired")])
    for code in (201, 200):
        result, answer = await client.send(
            "PATCH", "Queue/q", text % 1, type=APPLY, fieldManager="one"
        )
        assert result == code
    code, answer = await client.send("PATCH", "Queue/q", text % 2, type=APPLY, fieldManager="two")
    assert (code, answer["reason"]) == (409, "Conflict")
    assert causes(answer) == [(".spec.weight", "FieldManagerConflict")]
    assert answer["message"].startswith("Apply failed with 1 conflict: conflict with")
    code, answer = await client.send(
        "PATCH", "Queue/q", text % 2, type=APPLY, fieldManager="two", force="true"
    )
    assert (code, answer["spec"]) == (200, {"weight": 2})


async def test_cordon(client: WriteClient) -> None:
    await client.create(node())
    code, answer = await client.send(
        "PATCH", "Node/n", {"spec": {"unschedulable": True}}, type=STRATEGIC
    )
    assert (code, answer["spec"]) == (200, {"unschedulable": True})
    code, answer = await client.send(
        "PATCH", "Node/n", {"spec": {"unschedulable": None}}, type=STRATEGIC
    )
    assert (code, answer["spec"], answer["status"]) == (200, {}, node()["status"])


async def test_a_queue_is_closed_by_its_status(client: WriteClient) -> None:
    await client.create(queue())
    patch = {"status": {"state": "Closed", "pending": 5}}
    code, answer = await client.send("PATCH", "Queue/q", patch, type=MERGE)
    assert (code, answer["status"]) == (200, {"state": "Closed"})
    code, answer = await client.send("PUT", "Queue/q", {"spec": {"weight": 2}})
    assert (code, answer["status"]) == (200, {"state": "Closed"})


# --- delete -----------------------------------------------------------------------------------


async def test_delete(client: WriteClient) -> None:
    _, read = await client.create(queue())
    uid = read["metadata"]["uid"]
    for options, code in (
        ({"preconditions": {"uid": "x"}}, 409),
        ({"preconditions": {"resourceVersion": "x"}}, 409),
        ({"preconditions": 5}, 400),
        ({"dryRun": ["All"], "preconditions": {"uid": uid}}, 200),
        ({"propagationPolicy": "Background", "gracePeriodSeconds": 0}, 200),
        ({}, 404),
    ):
        result, answer = await client.send("DELETE", "Queue/q", options)
        assert result == code, (options, answer)
        if code == 200:
            assert answer["status"] == "Success"
            assert answer["details"] == {
                "name": "q",
                "kind": "queues",
                "group": "scheduling.volcano.sh",
                "uid": uid,
            }


async def test_a_queue_that_is_needed_stays(client: WriteClient) -> None:
    await client.create(queue())
    await client.create(pod_group(queue="q"))
    code, answer = await client.send("DELETE", "Queue/q")
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "PodGroup ns/g" in answer["message"]
    assert (await client.send("DELETE", "Queue/default"))[0] == 409


async def test_pods_owned_by_a_job_cannot_be_written(client: WriteClient) -> None:
    owner = {"kind": "Job", "name": "j"}
    client.seen.others[Key("Pod", "ns", "j-w-0")] = {"metadata": {"ownerReferences": [owner]}}
    for method, body, type in (
        ("DELETE", None, ""),
        ("PATCH", {}, MERGE),
        ("PATCH", pod("j-w-0"), APPLY),
        ("PUT", pod("j-w-0"), "application/json"),
    ):
        code, answer = await client.send(method, "Pod/j-w-0", body, type=type, fieldManager="m")
        assert (code, answer["reason"]) == (422, "Invalid"), answer
        assert "belongs to Job j" in answer["message"]
    assert (await client.create(pod("j-w-0")))[0] == 409


# --- dry run ----------------------------------------------------------------------------------


async def test_a_dry_run_answers_and_keeps_nothing(client: WriteClient) -> None:
    code, answer = await client.create(queue(weight=1), dryRun="All")
    assert (code, answer["spec"], answer["metadata"]["generation"]) == (201, {"weight": 1}, 1)
    assert Key("Queue", "", "q") not in client.seen.documents
    _, read = await client.create(queue(weight=1))
    patch = {"spec": {"weight": 7}}
    code, answer = await client.send("PATCH", "Queue/q", patch, type=MERGE, dryRun="All")
    assert (code, answer["spec"], answer["metadata"]["generation"]) == (200, {"weight": 7}, 2)
    assert answer["metadata"]["uid"] == read["metadata"]["uid"]
    assert client.seen.get(QUEUE, "", "q") == read
    code, answer = await client.send("PATCH", "Queue/q", {}, type=MERGE, dryRun="All")
    assert (code, answer) == (200, read)
    assert (await client.send("DELETE", "Queue/q", dryRun="All"))[0] == 200
    assert client.seen.get(QUEUE, "", "q") == read


# --- the rest ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        {"dryRun": "some"},
        {"fieldValidation": "Loud"},
        {"force": "yes"},
        {"fieldManager": "x" * 129},
        {"fieldManager": "a\nb"},
    ],
)
async def test_wrong_options(client: WriteClient, query: dict[str, str]) -> None:
    code, answer = await client.create(queue(), **query)
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert next(iter(query)) in answer["message"]


async def test_kinds_that_are_only_read(client: WriteClient) -> None:
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "ns"}}
    code, answer = await client.create(event)
    assert (code, answer["reason"]) == (405, "MethodNotAllowed")
    assert "written by the scheduler" in answer["message"]
    assert (await client.send("DELETE", "Event/x"))[0] == 405


async def test_a_forbidden_write_is_answered_403() -> None:
    def may(request: Any, kind: Any, obj: Any, *, as_it_is: bool = False) -> None:
        if obj.get("spec", {}).get("queue") == "secret":
            raise Problem(403, "not yours", reason="Forbidden")  # type: ignore[arg-type]

    async with behind(may=may) as client:
        assert (await client.create(pod_group(queue="secret")))[0] == 403
        assert (await client.create(pod_group(queue="open")))[0] == 201
        patch = {"spec": {"queue": "secret"}}
        assert (await client.send("PATCH", "PodGroup/g", patch, type=MERGE))[0] == 403
