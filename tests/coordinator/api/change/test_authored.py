"""Fields that the server adds to an object never count as its author's."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.change.authored import authored, with_added
from coordinator.api.write.handlers import preview
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import NODE, POD, POD_GROUP, QUEUE
from coordinator.intake.documents.metadata import OWN

CREATED = 1_780_000_000.0


def written(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **parts}


def document(obj: dict[str, Any]) -> Document:
    return Document(Key(obj["kind"], "", "a"), orjson.dumps(obj), CREATED)


def live_object(obj: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    """As a server shows it: ``labels`` and ``annotations`` go into the metadata."""
    live = copy.deepcopy(obj)
    live["metadata"] |= {"uid": "u", "resourceVersion": "5", "generation": 1}
    for name, value in parts.items():
        into = live["metadata"] if name in ("labels", "annotations") else live
        into[name] = into.get(name, {}) | value
    return live


def test_a_pod_that_was_placed_comes_back_as_it_was() -> None:
    obj = written("Pod", spec={"containers": []})
    live = live_object(
        obj, spec={"nodeName": "n"}, status={"phase": "Running"}, annotations={OWN[0]: "1"}
    )
    assert authored(POD, live, document(obj), live) == obj
    sent = copy.deepcopy(live)
    sent["metadata"]["labels"] = {"mine": "1"}
    assert authored(POD, sent, document(obj), live)["metadata"] == {
        "name": "a",
        "labels": {"mine": "1"},
    }


def test_another_node_than_the_one_shown_is_a_word() -> None:
    obj = written("Pod", spec={"containers": []})
    live = live_object(obj, spec={"nodeName": "n"})
    sent = copy.deepcopy(live)
    sent["spec"]["nodeName"] = "other"
    assert authored(POD, sent, document(obj), live)["spec"]["nodeName"] == "other"


def test_own_annotations_are_nobodys() -> None:
    obj = written("PodGroup") | {"metadata": {"name": "a", "annotations": {OWN[2]: "x", "b": "c"}}}
    assert authored(POD_GROUP, obj, None, None)["metadata"]["annotations"] == {"b": "c"}


def test_status_only_where_it_can_be_said() -> None:
    assert "status" not in authored(POD, written("Pod", status={"phase": "Running"}), None, None)
    node = written("Node", status={"allocatable": {"cpu": "1"}})
    live = live_object(
        node, status={"capacity": {"cpu": "1"}, "conditions": [1]}, labels={"host": "a"}
    )
    assert authored(NODE, live, document(node), live) == node
    bare = {k: v for k, v in live.items() if k != "status"}
    assert authored(NODE, bare, document(node), live) == node
    queue = written("Queue")
    live = live_object(queue, spec={}, status={"state": "Open", "pending": 1})
    assert authored(QUEUE, live, document(queue), live) == queue | {"spec": {}}
    closed = live | {"status": {"state": "Closed"}}
    assert authored(QUEUE, closed, document(queue), live)["status"] == {"state": "Closed"}


_MAP = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1, 2, {"x": 1}]), max_size=4)


@given(_MAP, _MAP, _MAP, _MAP)
def test_the_authored_object_is_recovered_from_the_shown_one(
    spec: dict[str, Any], labels: dict[str, Any], more: dict[str, Any], other: dict[str, Any]
) -> None:
    obj = written("Pod", spec=spec)
    obj["metadata"]["labels"] = labels
    live = live_object(
        obj,
        spec={k: v for k, v in more.items() if k not in spec},
        labels={k: v for k, v in other.items() if k not in labels},
    )
    before = copy.deepcopy((obj, live))
    assert authored(POD, live, document(obj), live) == obj
    assert with_added(obj, live, obj)["spec"] == live["spec"]
    assert (obj, live) == before


def test_a_preview_keeps_what_the_server_adds() -> None:
    old, new = written("Pod", spec={"a": 1, "b": 1}), written("Pod", spec={"a": 2})
    live = live_object(old, spec={"nodeName": "n"}, status={"phase": "Running"}, labels={"l": "1"})
    shown_object = preview(document(new), document(old), live)
    assert shown_object["spec"] == {"a": 2, "nodeName": "n"}
    assert shown_object["status"] == {"phase": "Running"}
    assert shown_object["metadata"]["labels"] == {"l": "1"}
    assert shown_object["metadata"]["resourceVersion"] == "5"
    same = document(old)
    assert preview(same, same, live) is live
    assert "resourceVersion" not in preview(document(new), None, None)["metadata"]
