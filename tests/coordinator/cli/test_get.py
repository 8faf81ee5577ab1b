"""Tables, JSON, YAML, names, templates; watches. Shapes of answers are Kubernetes'."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.stand_in import DISCOVERY, listed, pod, serving, status, table

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
GONE = status(410, "Expired", "too old")


def test_a_table_as_the_server_has_it(quadrant: Quadrant) -> None:
    with serving({("GET", f"{PODS} table"): (200, table(pod("web-0"), pod("b", "")))}) as server:
        plain = quadrant("get", "pods", "-s", server.url)
        wide = quadrant("get", "po", "-s", server.url, "-o", "wide")
        bare = quadrant("get", "pod", "-s", server.url, "--no-headers")
    assert plain.out == "NAME    STATUS\nweb-0   Running\nb       <none>\n"
    assert wide.lines == ["NAME STATUS NODE", "web-0 Running n1", "b <none> n1"]
    assert bare.lines == ["web-0 Running", "b <none>"]
    assert plain.code == wide.code == bare.code == 0
    request = server.requests("GET")[-1]
    assert request.query == {"limit": "2000"}


def test_every_namespace_has_a_column(quadrant: Quadrant) -> None:
    with serving({("GET", "/api/v1/pods table"): (200, table(pod("a")))}) as server:
        result = quadrant("get", "pods", "-A", "-s", server.url, "-l", "app=x")
    assert result.lines == ["NAMESPACE NAME STATUS", "default a Running"]
    assert server.requests("GET")[-1].query["labelSelector"] == "app=x"


def test_several_kinds(quadrant: Quadrant) -> None:
    answers = {
        ("GET", f"{PODS} table"): (200, table(pod("a"))),
        ("GET", f"{NODES} table"): (200, table(pod("n"))),
    }
    with serving(answers) as server:
        result = quadrant("get", "pods,nodes", "-s", server.url)
    assert result.lines == ["NAME STATUS", "pod/a Running", "", "NAME STATUS", "node/n Running"]


def test_named_objects_and_one_that_is_not_there(quadrant: Quadrant) -> None:
    answers = {
        ("GET", f"{PODS}/a table"): (200, table(pod("a"))),
        ("GET", f"{PODS}/b table"): (200, table(pod("b"))),
        ("GET", f"{PODS}/c"): status(404, "NotFound", 'pods "c" not found'),
    }
    with serving(answers) as server:
        result = quadrant("get", "pod/a", "pod/c", "pod/b", "-s", server.url)
        quiet = quadrant("get", "pod", "c", "--ignore-not-found", "-s", server.url)
    assert result.lines == ["NAME STATUS", "a Running", "b Running"]
    assert (result.code, result.err) == (1, 'Error: pods "c" not found\n')
    assert quiet == (0, "", "")


def test_pages_are_one_table_and_one_that_expired_is_read_again(quadrant: Quadrant) -> None:
    first = table(pod("a"))
    first["metadata"]["continue"] = "more"
    pages: list[tuple[int, Any]] = [(200, first), GONE, (200, first), (200, table(pod("b")))]
    with serving({("GET", f"{PODS} table"): pages}) as server:
        result = quadrant("get", "pods", "-s", server.url)
    assert result.lines == ["NAME STATUS", "a Running", "b Running"]
    assert [a.query.get("continue") for a in server.asked if a.path == PODS] == [
        None,
        "more",
        None,
        "more",
    ]


def test_nothing_there(quadrant: Quadrant) -> None:
    answers = {
        ("GET", "/api/v1/namespaces/x/pods table"): (200, table()),
        ("GET", f"{NODES} table"): (200, table()),
    }
    with serving(answers) as server:
        pods = quadrant("get", "pods", "-n", "x", "-s", server.url)
        nodes = quadrant("get", "nodes", "-s", server.url)
    assert pods == (0, "", "No resources found in x namespace\n")
    assert nodes == (0, "", "No resources found\n")


def test_forms_for_scripts(quadrant: Quadrant) -> None:
    answers = {
        ("GET", PODS): (200, listed("Pod", pod("a"), pod("b"))),
        ("GET", f"{PODS}/a"): (200, pod("a")),
    }
    with serving(answers) as server:

        def out(*arguments: str) -> str:
            result = quadrant("get", *arguments, "-s", server.url)
            assert (result.code, result.err) == (0, "")
            return result.out

        assert json.loads(out("pod/a", "-o", "json")) == pod("a")
        assert yaml.safe_load(out("pod/a", "-o", "yaml")) == pod("a")
        several = json.loads(out("pods", "-o", "json"))
        assert (several["kind"], several["items"]) == ("List", [pod("a"), pod("b")])
        assert out("pods", "-o", "name") == "pod/a\npod/b\n"
        assert out("pod", "a", "-o", "jsonpath={.spec.nodeName}") == "n1"
        assert out("pods", "-o", "jsonpath={.items[*].metadata.name}") == "a b"


def test_managed_fields_are_shown_only_on_request(quadrant: Quadrant) -> None:
    value = pod("a")
    value["metadata"]["managedFields"] = [{"manager": "x"}]
    with serving({("GET", f"{PODS}/a"): (200, value)}) as server:
        words = ("get", "pod/a", "-o", "json", "-s", server.url)
        assert json.loads(quadrant(*words).out) == pod("a")
        assert json.loads(quadrant(*words, "--show-managed-fields").out) == value


def test_the_order_that_was_asked_for(quadrant: Quadrant) -> None:
    ten, two, none = pod("a", x=10), pod("b", x=2), pod("c")
    answers = {
        ("GET", PODS): (200, listed("Pod", ten, two, none)),
        ("GET", f"{PODS} table"): (200, table(none, ten, two)),
    }
    with serving(answers) as server:
        result = quadrant("get", "pods", "--sort-by", ".x", "--no-headers", "-s", server.url)
        names = quadrant("get", "pods", "--sort-by", "{.x}", "-o", "name", "-s", server.url)
    assert [line.split()[0] for line in result.lines] == ["b", "a", "c"]
    assert names.lines == ["pod/b", "pod/a", "pod/c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pdos", 'no kind "pdos"; did you mean "pods"?'),
        ("pods/a/b", '"pods/a/b" is not TYPE/NAME'),
        ("pod/a pods", '"pods" is not TYPE/NAME'),
        ("pods,nodes a", "names after several kinds"),
    ],
)
def test_invalid_get_arguments_are_refused(
    quadrant: Quadrant, arguments: str, message: str
) -> None:
    with serving({}) as server:
        result = quadrant("get", *arguments.split(), "-s", server.url)
    assert result.code == 1
    assert message in result.err


def test_a_kind_is_known_by_all_its_names(quadrant: Quadrant) -> None:
    path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups table"
    names = ("pg", "podgroup", "PodGroup", "podgroups.scheduling.volcano.sh")
    with serving({("GET", path): (200, table(pod("a")))}) as server:
        for name in (*names, "podgroups.v1beta1.scheduling.volcano.sh"):
            assert quadrant("get", name, "-s", server.url).code == 0


# --- watches ----------------------------------------------------------------------------------


def _event(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": value}


def test_a_watch_goes_on_after_what_it_has_seen(quadrant: Quadrant) -> None:
    changed = pod("long-name", "Failed")
    changed["metadata"]["resourceVersion"] = "9"
    bookmark = {"kind": "Table", "metadata": {"resourceVersion": "12"}, "rows": []}
    streams: list[Any] = [
        (200, [_event("MODIFIED", table(changed)), _event("BOOKMARK", bookmark)]),
        (200, [_event("DELETED", table(changed, columns=False))]),
        (200, [_event("ERROR", GONE[1])]),
        status(403, "Forbidden", "enough of this test"),
    ]
    answers = {("GET", f"{PODS} table"): (200, table(pod("a"))), ("GET", f"{PODS} watch"): streams}
    with serving(answers) as server:
        result = quadrant("get", "pods", "-w", "-s", server.url)
    versions = [a.query["resourceVersion"] for a in server.asked if a.query.get("watch")]
    assert versions == ["7", "12", "9", "7"]  # the last after a new list
    assert result.lines == [
        "NAME STATUS",
        "a Running",
        "long-name Failed",
        "long-name Failed",
        "a Running",
    ]
    assert result.err == "Error: enough of this test\n"


def test_a_watch_of_one_name_and_of_changes_alone(quadrant: Quadrant) -> None:
    streams = [(200, [_event("ADDED", pod("a"))]), status(403, "Forbidden", "end")]
    answers = {("GET", f"{PODS} table"): (200, table(pod("a"))), ("GET", f"{PODS} watch"): streams}
    with serving(answers) as server:
        result = quadrant("get", "pod", "a", "--watch-only", "-o", "name", "-s", server.url)
    assert result.out == "pod/a\n"
    assert server.asked[-1].query["fieldSelector"] == "metadata.name=a"


# --- the connection ---------------------------------------------------------------------------


def test_a_busy_server_is_asked_again(quadrant: Quadrant) -> None:
    busy = status(429, "TooManyRequests", "later")
    answers = {("GET", f"{PODS} table"): [busy, busy, (200, table(pod("a")))]}
    with serving(answers) as server:
        result = quadrant("get", "pods", "-s", server.url, "-v")
    assert result.lines == ["NAME STATUS", "a Running"]
    assert result.err.count("/pods?limit=2000 429") == 2


def test_get_sends_the_token_and_never_prints_it(
    quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_TOKEN", "secret")
    refused = status(401, "Unauthorized", "no such token")
    with serving({("GET", f"{PODS} table"): refused}) as server:
        result = quadrant("get", "pods", "-s", server.url)
    assert {request.headers["Authorization"] for request in server.asked} == {"Bearer secret"}
    assert result.code == 1
    assert "QUADRANT_TOKEN" in result.err
    assert "secret" not in result.err


def test_an_answer_that_is_not_a_json_object_is_an_error(quadrant: Quadrant) -> None:
    with serving({("GET", "/apis"): (200, [1, 2])}) as server:
        result = quadrant("get", "pods", "-s", server.url)
    assert result.code == 1
    assert "not a JSON object" in result.err
    assert ("GET", "/apis") in DISCOVERY
