"""Any body becomes an object that admission can judge, or a Problem. Never another error."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.api.change.bodies import (
    APPLY,
    JSON_PATCH,
    MERGE,
    PATCHES,
    STRATEGIC,
    object_of,
    patch_of,
)
from coordinator.api.change.change import (
    Author,
    CurrentObject,
    created,
    identified,
    named,
    patched,
    replaced,
)
from coordinator.api.change.options import read_deletion
from coordinator.api.change.refusals import of_refusal
from coordinator.errors import Problem, status_body
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import BY_KIND, Kind
from coordinator.intake.intake import Intake
from tests.builders.objects import kube_object, node, pod, pod_group, queue, task
from tests.examples import examples

pytestmark = pytest.mark.timeout(100)
AUTHOR = Author("fuzz", "2026-01-01T00:00:00Z")
OTHER = Author("other", "2026-01-02T00:00:00Z", force=True)
JOB = kube_object(
    "batch.volcano.sh/v1alpha1", "Job", "j", namespace="ns", spec={"tasks": [task(), task("p")]}
)
OBJECTS: list[dict[str, Any]] = [node(), queue(), pod_group(), pod(), JOB]

_NAMES = st.sampled_from(
    [
        *("metadata", "spec", "status", "name", "namespace", "labels", "annotations", "kind"),
        *("apiVersion", "managedFields", "resourceVersion", "uid", "generateName", "finalizers"),
        *("ownerReferences", "containers", "tasks", "template", "taints", "key", "effect", "ports"),
        *("containerPort", "resources", "requests", "limits", "cpu", "queue", "weight", "volumes"),
        *("$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/tasks", "op"),
        *("$setElementOrder/", "$deleteFromPrimitiveList/finalizers", "path", "value", "from", ""),
        *("manager", "operation", "fieldsV1", "f:spec", ".", 'k:{"name":"c"}', "state", "parent"),
    ]
)
_PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["a", "c", "w", "1", "replace", "delete", "merge", "add", "/spec", "/-", "/"])
    | _NAMES
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_PATCH_OBJECTS = st.dictionaries(_NAMES, _VALUES, max_size=4)
_POINTERS = st.lists(_NAMES | st.sampled_from(["0", "-", "1"]), max_size=4).map(
    lambda parts: "".join(f"/{part.replace('/', '~1')}" for part in parts)
)
_OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": _POINTERS,
            "value": _VALUES,
            "from": _POINTERS,
        }
    ),
    max_size=4,
)


def kind_of(obj: dict[str, Any]) -> tuple[Kind, Key]:
    kind = BY_KIND[obj["kind"]]
    meta = obj["metadata"]
    return kind, Key(kind.kind, meta.get("namespace", ""), meta["name"])


def judged(make: Any, kind: Kind, key: Key, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Apply a change and admit it; None where it is refused somewhere."""
    try:
        new = make()
    except Problem as problem:
        assert problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
        orjson.dumps(status_body(problem))
        return None
    intake = Intake()
    intake.admit([] if before is None else [before], 1.0)
    admission = intake.admit([new], 2.0)
    for refusal in admission.refused:
        orjson.dumps(status_body(of_refusal(kind, key.name, refusal)))
    if admission.refused:
        return None
    assert isinstance(new, dict)
    return new


def now_of(obj: dict[str, Any]) -> CurrentObject:
    kind, key = kind_of(obj)
    first = created(CurrentObject(None, None), obj, kind, AUTHOR)
    live = orjson.loads(orjson.dumps(first))
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": "x"}
    return CurrentObject(Document(key, orjson.dumps(first), 1.0), live)


@settings(max_examples=examples(500))
@given(st.sampled_from(OBJECTS), st.sampled_from([STRATEGIC, MERGE, APPLY]), _PATCH_OBJECTS)
@example(OBJECTS[3], STRATEGIC, {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}})
@example(OBJECTS[3], MERGE, {"metadata": {"managedFields": [{"operation": "Apply"}]}})
@example(OBJECTS[3], MERGE, {"metadata": {"name": 5}})
@example(OBJECTS[3], MERGE, {"metadata": {"namespace": 5}})
@example(OBJECTS[0], MERGE, {"status": 5})
@example(OBJECTS[0], APPLY, {"metadata": {"labels": 5}, "status": []})
@example(OBJECTS[4], APPLY, {"spec": {"tasks": [{"name": 5}, {"name": 5}]}})
def test_any_patch_is_answered(obj: dict[str, Any], language: str, patch: dict[str, Any]) -> None:
    kind, key = kind_of(obj)
    now = now_of(obj)
    for author in (AUTHOR, OTHER):
        new = judged(
            lambda author=author: patched(now, patch, kind, author, key=key, language=language),
            kind,
            key,
            now.before.object() if now.before else None,
        )
        if new is None:
            continue
        # The same change of what came of it changes nothing more where it is a state, not a step.
        again = CurrentObject(Document(key, orjson.dumps(new), 1.0), new)
        if language == APPLY:
            assert patched(again, patch, kind, author, key=key, language=APPLY) == new


@settings(max_examples=examples(300))
@given(st.sampled_from(OBJECTS), _OPERATIONS)
def test_any_json_patch_is_answered(obj: dict[str, Any], operations: Any) -> None:
    kind, key = kind_of(obj)
    now = now_of(obj)
    judged(
        lambda: patched(now, operations, kind, AUTHOR, key=key, language=JSON_PATCH), kind, key, obj
    )


@settings(max_examples=examples(300))
@given(st.sampled_from(OBJECTS), _PATCH_OBJECTS)
@example(OBJECTS[3], {"metadata": {"generateName": "x" * 300}})
@example(OBJECTS[3], {"metadata": {"name": ["a"]}})
@example(OBJECTS[3], {"metadata": []})
def test_any_object_is_answered(obj: dict[str, Any], changes: dict[str, Any]) -> None:
    kind, key = kind_of(obj)
    sent = obj | changes

    def create() -> dict[str, Any]:
        named_object = named(identified(sent, kind, key.namespace, None), lambda: "abcde")
        return created(CurrentObject(None, None), named_object, kind, AUTHOR)

    judged(create, kind, key, None)
    now = now_of(obj)
    judged(
        lambda: replaced(now, identified(sent, kind, key.namespace, key.name), kind, AUTHOR),
        kind,
        key,
        obj,
    )


@settings(max_examples=examples(200))
@given(_PATCH_OBJECTS | _VALUES.map(lambda value: {"preconditions": value, "dryRun": [value]}))
def test_any_options_of_a_deletion_are_answered(options: dict[str, Any]) -> None:
    try:
        read_deletion(options, dry_run=False)
    except Problem as problem:
        assert problem.status == HTTPStatus.BAD_REQUEST


@settings(max_examples=examples(200))
@given(st.binary(max_size=60) | _VALUES.map(orjson.dumps), st.sampled_from([*PATCHES, "a/b"]))
def test_any_body_is_answered(body: bytes, content_type: str) -> None:
    for read in (object_of, patch_of):
        for type in (content_type, "application/json", "application/yaml"):
            try:
                read(body, type)
            except Problem as problem:
                assert problem.status in (400, 415)
