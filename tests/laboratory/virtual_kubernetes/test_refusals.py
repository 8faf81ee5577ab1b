"""What the double of the API server does not know it refuses loudly, and guesses nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from laboratory.api_server.answers import Answer, NotServed
from laboratory.api_server.server import Request
from tests.kubernetes.driver.harness import node, pod
from tests.laboratory.virtual_kubernetes.stage import Stage

PODS = "/api/v1/namespaces/default/pods"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
VOLUME = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}


def asked(
    method: str, path: str, body: Any = None, *, form: str = MERGE_PATCH, **query: str
) -> Request:
    text = b"" if body is None else orjson.dumps(body)
    return Request(method, path, query=query, body=text, form=form)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked("POST", "/api/v1/persistentvolumes", VOLUME), id="a kind that is empty"),
        pytest.param(asked("DELETE", PODS), id="a deletion of all"),
        pytest.param(
            asked("PATCH", f"{PODS}/p-1", {"spec": {"schedulerName": "x"}}), id="a pod's spec"
        ),
        pytest.param(
            asked("PATCH", f"{PODS}/p-1", [], form="application/json-patch+json"), id="jq"
        ),
        pytest.param(
            asked("PATCH", f"{PODS}/p-1", {"spec": {"containers": []}}, form=STRATEGIC_PATCH),
            id="a list whose key is not known",
        ),
        pytest.param(
            asked("PATCH", f"{PODS}/p-1/status", {"status": {"$patch": "x"}}, form=STRATEGIC_PATCH),
            id="a directive",
        ),
        pytest.param(
            asked("POST", PODS, pod("p-2") | {"spec": {"hostNetwork": True, "containers": []}}),
            id="a field without a rule",
        ),
        pytest.param(asked("GET", PODS, fieldSelector="spec.priority=1"), id="a field selector"),
        pytest.param(asked("GET", PODS, labelSelector="app in (a)"), id="a set of labels"),
        pytest.param(asked("GET", PODS, watch="1", resourceVersion="0"), id="a watch from any"),
        pytest.param(asked("GET", PODS, sendInitialEvents="1"), id="an option"),
        pytest.param(asked("GET", "/metrics"), id="metrics"),
        pytest.param(
            asked("DELETE", f"{PODS}/p-1", {"propagationPolicy": "Foreground"}), id="propagation"
        ),
        pytest.param(asked("POST", f"{PODS}/p-1/binding", {"target": {}}), id="a binding to none"),
    ],
)
def test_a_request_without_a_rule_raises(request_: Request) -> None:
    stage = Stage()
    stage.ask("POST", "/api/v1/nodes", node("n1"))
    stage.ask("POST", PODS, pod("p-1"))
    version = stage.server.store.version
    with pytest.raises(NotServed):
        stage.edge.handle(request_)
    assert stage.server.store.version == version


def test_a_path_that_is_not_served_is_not_found() -> None:
    answer = Stage().edge.handle(asked("GET", "/apis/nobody.example.com/v1/nothings"))
    assert isinstance(answer, Answer)
    assert (answer.code, answer.body) == (404, "404 page not found\n")
