"""apply, diff, delete, queue close: one line for each object, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import objects
from tests.builders.objects import a_list
from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.stand_in import QUEUES, listed, pod, serving, status

PODS = "/api/v1/namespaces/default/pods"
TWO = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\n" + json.dumps(pod("b"))
MISSING = status(404, "NotFound", "not found")


def _changed(value: dict[str, Any], version: str = "8", **more: Any) -> dict[str, Any]:
    meta = {**value["metadata"], "resourceVersion": version, "generation": 2}
    return {**value, "metadata": meta, **more}


def test_apply_says_what_became_of_each(quadrant: Quadrant) -> None:
    configured = _changed(pod("b"), spec={"nodeName": "n2"})
    answers = {
        ("GET", f"{PODS}/a"): MISSING,
        ("PATCH", f"{PODS}/a"): (201, pod("a")),
        ("GET", f"{PODS}/b"): (200, pod("b")),
        ("PATCH", f"{PODS}/b"): [
            (200, configured),
            (200, _changed(pod("b"), status={})),
            (200, pod("b")),
        ],
    }
    with serving(answers) as server:
        result = quadrant("apply", "-f", "-", "-s", server.url, stdin=TWO)
        assert (result.code, result.err) == (0, "")
        assert result.out == "pod/a created\npod/b configured\n"
        again = quadrant("apply", "-f", "-", "-s", server.url, stdin=TWO)
        assert again.lines[1] == "pod/b unchanged", "only its state moved"
        third = quadrant("apply", "-f", "-", "-s", server.url, "--dry-run=server", stdin=TWO)
        assert third.lines[1] == "pod/b unchanged (server dry run)"
    first = next(request for request in server.requests("PATCH") if request.path == f"{PODS}/a")
    last = server.requests("PATCH")[-1]
    assert first.headers["Content-Type"] == "application/apply-patch+yaml"
    assert first.query == {"fieldManager": "quadrant", "fieldValidation": "Strict"}
    assert json.loads(first.body)["metadata"] == {"name": "a"}
    assert last.query["dryRun"] == "All"


def test_fields_written_by_the_server_are_no_change(quadrant: Quadrant) -> None:
    """The shard of a running pod's node may move between the two reads."""
    moved = pod("b")
    moved["metadata"] = {**moved["metadata"], "annotations": {"quadrant.dev/shard": "shard-1"}}
    answers = {
        ("GET", f"{PODS}/b"): (200, pod("b")),
        ("PATCH", f"{PODS}/b"): (200, moved),
    }
    text = json.dumps(pod("b"))
    with serving(answers) as server:
        assert quadrant("apply", "-f", "-", "-s", server.url, stdin=text).out == "pod/b unchanged\n"
        assert quadrant("diff", "-f", "-", "-s", server.url, stdin=text).out == ""
        moved["metadata"]["annotations"]["team"] = "a"
        result = quadrant("diff", "-f", "-", "-s", server.url, stdin=text)
    changes = [line.split() for line in result.lines if line.startswith(("+ ", "- "))]
    assert changes == [["+", "annotations:"], ["+", "team:", "a"]]


def test_a_refused_object_does_not_keep_the_others_out(quadrant: Quadrant) -> None:
    refusal = status(
        422,
        "Invalid",
        'Pod "a" is invalid',
        ("spec.containers", "must have one"),
        ("spec.x", "odd"),
    )
    answers = {
        ("GET", f"{PODS}/a"): MISSING,
        ("PATCH", f"{PODS}/a"): refusal,
        ("GET", f"{PODS}/b"): MISSING,
        ("PATCH", f"{PODS}/b"): (201, pod("b")),
    }
    odd = TWO + "\n---\nkind: Pdo\napiVersion: v1\n---\nkind: Pod\napiVersion: v1\n"
    with serving(answers) as server:
        result = quadrant("apply", "-f", "-", "-s", server.url, stdin=odd)
    assert (result.code, result.out) == (1, "pod/b created\n")
    first, *causes, kind, name = result.err.splitlines()
    assert first == 'Error: standard input: Pod a: Pod "a" is invalid'
    assert causes == ["  spec.containers: must have one", "  spec.x: odd"]
    assert "did you mean Pod?" in kind
    assert "metadata.name: missing" in name


def test_remedies_for_kinds_of_other_apis_are_jobs_that_can_be_written(quadrant: Quadrant) -> None:
    others = (("jobset.x-k8s.io/v1alpha2", "JobSet"), ("ray.io/v1", "RayJob"), ("apps/v1", "Pod"))
    texts = [f"{{apiVersion: {api}, kind: {kind}}}" for api, kind in (("batch/v1", "Job"), *others)]
    with serving({}) as server:
        result = quadrant("apply", "-f", "-", "-s", server.url, stdin="\n---\n".join(texts))
    job, *unserved, pod = result.err.splitlines()
    assert "in spec.tasks a list with one item of replicas" in job
    for line, group in zip(unserved, ("jobset.x-k8s.io", "ray.io"), strict=True):
        assert f"nothing here acts on objects of {group}; leave it out, or if it makes pods" in line
        assert "did you mean Job" not in line
    assert pod.endswith('apiVersion: "apps/v1" has no kind Pod; write v1')


def test_apply_refuses_an_object_with_only_generate_name(quadrant: Quadrant) -> None:
    text = "kind: Pod\napiVersion: v1\nmetadata: {generateName: made-}\n"
    with serving({}) as server:
        result = quadrant("apply", "-f", "-", "-s", server.url, stdin=text)
    assert (result.code, result.out) == (1, "")
    assert "metadata.generateName: each time it would be another object" in result.err
    assert "kubectl create -f FILE" in result.err


def test_many_go_side_by_side_and_are_told_in_order(quadrant: Quadrant) -> None:
    names = [f"p{n}" for n in range(40)]
    answers: dict[tuple[str, str], Any] = {("GET", f"{PODS}/{n}"): MISSING for n in names}
    answers |= {("PATCH", f"{PODS}/{n}"): (201, pod(n)) for n in names}
    answers |= {("GET", f"{QUEUES}/q"): MISSING, ("PATCH", f"{QUEUES}/q"): (201, pod("q"))}
    items = [objects.queue("q"), *map(pod, names)]
    with serving(answers) as server:
        server.slow = 0.02
        text = json.dumps(a_list(*items))
        result = quadrant("apply", "-f", "-", "-s", server.url, stdin=text)
    assert server.most_at_once > 4
    label = "queue.scheduling.volcano.sh/q"
    assert result.lines == [f"{label} created", *(f"pod/{n} created" for n in names)]
    assert server.requests("PATCH")[0].path == f"{QUEUES}/q", "before any of its jobs"


def test_an_object_that_is_there_twice_ends_as_the_last_one_says(quadrant: Quadrant) -> None:
    twice = [pod("a"), pod("b"), pod("a", spec={"nodeName": "n2"})]
    answers: dict[tuple[str, str], Any] = {("GET", f"{PODS}/{n}"): MISSING for n in "ab"}
    answers |= {("PATCH", f"{PODS}/{n}"): (201, pod(n)) for n in "ab"}
    with serving(answers) as server:
        quadrant("apply", "-f", "-", "-s", server.url, stdin="\n".join(map(json.dumps, twice)))
        sent = [(request.method, request.path[-1]) for request in server.asked[-6:]]
    assert sent == [(method, name) for name in "aba" for method in ("GET", "PATCH")]


def test_files_and_directories(quadrant: Quadrant, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(pod("b")))
    (tmp_path / "a.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n")
    (tmp_path / "notes.txt").write_text("not: {a manifest")
    answers = {("GET", f"{PODS}/{n}"): MISSING for n in "ab"}
    with serving(answers) as server:
        result = quadrant("apply", "-f", str(tmp_path), "-s", server.url, "--dry-run=client")
        assert result.out == "pod/a created (dry run)\npod/b created (dry run)\n"
        assert server.requests("PATCH") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\nkind: Pod\n", "line 2"),
        ("a: [", "line 2"),
        ("just words", "not an object"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(
    quadrant: Quadrant, tmp_path: Path, text: str, message: str
) -> None:
    good, bad = tmp_path / "a.yaml", tmp_path / "b.yaml"
    good.write_text("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n")
    bad.write_text(text)
    with serving({}) as server:
        result = quadrant("apply", "-f", str(good), "-f", str(bad), "-s", server.url)
        assert server.asked == []
    assert result.code == 1
    assert result.err.startswith(f"Error: {bad}: ")
    assert message in result.err
    assert "name a file" in quadrant("apply", "-f", "no-such-file").err


def test_a_namespace_that_contradicts_is_refused(quadrant: Quadrant) -> None:
    with serving({}) as server:
        result = quadrant(
            "apply", "-f", "-", "-n", "other", "-s", server.url, stdin=json.dumps(pod("b"))
        )
    assert result.code == 1
    assert "metadata.namespace is default, but -n says other" in result.err


def test_no_server_is_told_once(quadrant: Quadrant) -> None:
    result = quadrant("apply", "-f", "-", "-s", "http://127.0.0.1:9", stdin=TWO)
    assert (result.code, result.out, result.err.count("Error:")) == (1, "", 1)


def test_diff_ends_with_0_1_and_2(quadrant: Quadrant) -> None:
    text = json.dumps(pod("b"))
    changed = _changed(pod("b"), spec={"nodeName": "n2"})
    answers: dict[tuple[str, str], Any] = {
        ("GET", f"{PODS}/b"): (200, pod("b")),
        ("PATCH", f"{PODS}/b"): [(200, _changed(pod("b"), status={})), (200, changed), MISSING],
    }
    with serving(answers) as server:
        assert quadrant("diff", "-f", "-", "-s", server.url, stdin=text) == (0, "", "")
        result = quadrant("diff", "-f", "-", "-s", server.url, stdin=text)
        assert quadrant("diff", "-f", "-", "-s", server.url, stdin=text).code == 2
        assert all(request.query["dryRun"] == "All" for request in server.requests("PATCH"))
    assert result.code == 1
    assert "-  nodeName: n1\n+  nodeName: n2\n" in result.out
    assert "resourceVersion" not in result.out
    assert quadrant("diff", "-f", "no-such-file").code == 2


def test_diff_of_an_absent_object(quadrant: Quadrant) -> None:
    answers = {("GET", f"{PODS}/b"): MISSING, ("PATCH", f"{PODS}/b"): (201, pod("b"))}
    with serving(answers) as server:
        result = quadrant("diff", "-f", "-", "-s", server.url, stdin=json.dumps(pod("b")))
    assert result.code == 1
    assert "+kind: Pod\n" in result.out
    assert "uid" not in result.out


def test_delete_by_name_waits_until_it_is_gone(quadrant: Quadrant) -> None:
    leaving = pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answers = {
        ("DELETE", f"{PODS}/a"): (200, {"kind": "Status", "status": "Success"}),
        ("GET", f"{PODS}/a"): [(200, leaving), (200, leaving), MISSING],
    }
    with serving(answers) as server:
        result = quadrant("delete", "pod/a", "-s", server.url)
        assert result == (0, "pod/a deleted\n", "")
        looks = [request for request in server.requests("GET") if request.path == f"{PODS}/a"]
        assert len(looks) == 3


def test_delete_that_takes_too_long_ends_with_1(quadrant: Quadrant) -> None:
    leaving = pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answers = {("DELETE", f"{PODS}/a"): (200, leaving), ("GET", f"{PODS}/a"): (200, leaving)}
    with serving(answers) as server:
        result = quadrant("delete", "pod/a", "--timeout=0.2s", "-s", server.url)
        assert result.code == 1
        assert "pod/a: still there" in result.err
        assert quadrant("delete", "pod/a", "--no-wait", "-s", server.url).code == 0


def test_delete_by_label_and_by_file(quadrant: Quadrant) -> None:
    answers: dict[tuple[str, str], Any] = {
        ("GET", PODS): (200, listed("Pod", pod("a"), pod("b"))),
        ("DELETE", f"{PODS}/a"): (200, {}),
        ("DELETE", f"{PODS}/b"): MISSING,
    }
    with serving(answers) as server:
        result = quadrant("delete", "pods", "-l", "app=x", "-s", server.url)
        assert (result.code, result.out, result.err) == (1, "pod/a deleted\n", "Error: not found\n")
        result = quadrant("delete", "-f", "-", "--ignore-not-found", "-s", server.url, stdin=TWO)
        assert (result.code, result.out) == (0, "pod/a deleted\n")
        assert sorted(a.path[-1] for a in server.requests("DELETE")) == ["a", "a", "b", "b"]
        result = quadrant("delete", "pods", "-s", server.url)
        assert (result.code, "--all" in result.err) == (2, True)


def test_queues_are_closed_and_opened(quadrant: Quadrant) -> None:
    answers: dict[tuple[str, str], Any] = {
        ("PATCH", f"{QUEUES}/a"): (200, {}),
        ("GET", f"{QUEUES}/a"): (200, {}),
    }
    with serving(answers) as server:
        label = "queue.scheduling.volcano.sh/a"
        assert quadrant("queue", "close", "a", "-s", server.url).out == f"{label} closed\n"
        assert quadrant("queue", "open", "a", "-s", server.url).out == f"{label} opened\n"
        result = quadrant("queue", "close", "a", "b", "--dry-run=client", "-s", server.url)
        assert (result.code, result.out) == (1, f"{label} closed (dry run)\n")
        bodies = [json.loads(request.body) for request in server.requests("PATCH")]
    assert bodies == [{"status": {"state": "Closed"}}, {"status": {"state": "Open"}}]
