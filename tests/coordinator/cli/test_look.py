"""describe, events, wait, version, completion, top: what they show of what the server says."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperArgument

from laboratory.cli.catalogue import ENTRIES
from shared.ledger.schema import SCHEMA
from shared.wire_digest import WIRE
from tests.builders.objects import queue
from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.stand_in import QUEUES, listed, pod, serving, status

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


def _event(name: str, at: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "8"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": f"0 of 3 nodes\nfit {name}",
        "lastTimestamp": at,
        **more,
    }


def _waiting() -> dict[str, Any]:
    value = pod("a", "Pending")
    value["metadata"]["labels"] = {"app": "web", "b": "c"}
    value["spec"] = {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1"}}}]}
    value["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "Fragmented: 8 asked, no node has more than 6",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    return value


def test_describe(quadrant: Quadrant) -> None:
    events = [
        _event("late", "2026-01-02T00:00:00Z", count=3),
        _event("early", "2026-01-01T00:00:00Z"),
    ]
    answers = {
        ("GET", f"{PODS}/a"): (200, _waiting()),
        ("GET", EVENTS): (200, listed("Event", *events)),
    }
    with serving(answers) as server:
        result = quadrant("describe", "pod", "a", "-s", server.url)
        query = server.requests("GET")[-1].query["fieldSelector"]
    assert result.code == 0
    assert query == (
        "involvedObject.kind=Pod,involvedObject.name=a,involvedObject.namespace=default"
    )
    lines = result.lines
    assert lines[0] == "Name: a"
    assert "Kind: Pod (v1)" in lines
    assert lines[lines.index("Labels: app=web") + 1] == "b=c"
    assert "Annotations: <none>" in lines
    assert "Reason: Fragmented: 8 asked, no node has more than 6" in lines
    spec = lines.index("Spec:")
    assert lines[spec + 1 : spec + 6] == [
        "Containers:",
        "- Name: x",
        "Resources:",
        "Requests:",
        "Cpu: 1",
    ]
    at = lines.index("Events:")
    assert lines[at + 1] == "TYPE REASON AGE MESSAGE"
    assert "fit early" in lines[at + 2]
    assert "(x3)" in lines[at + 3]


def test_events_by_time(quadrant: Quadrant) -> None:
    late = _event("late", "2026-01-02T00:00:00Z", type="Normal")
    early = _event("early", "2026-01-01T00:00:00Z")
    with serving({("GET", EVENTS): (200, listed("Event", late, early))}) as server:
        result = quadrant("events", "-s", server.url)
        assert result.lines[0] == "LAST SEEN TYPE REASON OBJECT MESSAGE"
        assert [line.split()[-1] for line in result.lines[1:]] == ["early", "late"]
        assert "pod/a" in result.lines[1]
        assert len(quadrant("events", "--types=normal", "-s", server.url).lines) == 2
        quadrant("events", "--for", "pod/a", "-s", server.url)
        query = server.asked[-1].query["fieldSelector"]
        assert query == "involvedObject.kind=Pod,involvedObject.name=a"
        items = json.loads(quadrant("events", "-o", "json", "-s", server.url).out)["items"]
        assert [item["metadata"]["name"] for item in items] == ["early", "late"]


def test_events_as_they_come(quadrant: Quadrant) -> None:
    streams = [
        (200, [{"type": "ADDED", "object": _event("two", "2026-01-02T00:00:00Z")}]),
        status(403, "Forbidden", "end"),
    ]
    first = listed("Event", _event("one", "2026-01-01T00:00:00Z"))
    answers = {("GET", EVENTS): (200, first), ("GET", f"{EVENTS} watch"): streams}
    with serving(answers) as server:
        result = quadrant("events", "-w", "-s", server.url)
        assert [line.split()[-1] for line in result.lines[1:]] == ["one", "two"]


# --- wait -------------------------------------------------------------------------------------


def _moves(*phases: str) -> dict[tuple[str, str], Any]:
    """A pod that has the first phase at first; the others come by the watch."""
    events = [{"type": "MODIFIED", "object": pod("a", phase)} for phase in phases[1:]]
    return {
        ("GET", PODS): (200, listed("Pod", pod("a", phases[0]))),
        ("GET", f"{PODS} watch"): (200, events),
    }


@pytest.mark.parametrize(
    "goal", ["jsonpath={.status.phase}=Running", "jsonpath=.status.phase=Running"]
)
def test_wait_until_a_field_has_a_value(quadrant: Quadrant, goal: str) -> None:
    for answers in (_moves("Running"), _moves("Pending", "Pending", "Running")):
        with serving(answers) as server:
            result = quadrant("wait", "pod/a", f"--for={goal}", "-s", server.url)
        assert result == (0, "pod/a condition met\n", "")


def test_wait_that_takes_too_long_ends_with_1(quadrant: Quadrant) -> None:
    with serving(_moves("Pending", "Pending")) as server:
        result = quadrant(
            "wait",
            "pod/a",
            "--for=jsonpath={.status.phase}=Running",
            "--timeout=0.3s",
            "-s",
            server.url,
        )
        assert result.code == 1
        assert result.err == (
            "Error: timed out waiting for {.status.phase} to be Running on pods/a\n"
        )
        once = quadrant("wait", "pod/a", "--for=create", "--timeout=0", "-s", server.url)
        assert once == (0, "pod/a created\n", "")


def test_wait_for_conditions(quadrant: Quadrant) -> None:
    with serving({("GET", PODS): (200, listed("Pod", _waiting()))}) as server:
        goal = "--for=condition=podscheduled=false"
        assert (
            quadrant("wait", "pods", "--all", goal, "-s", server.url).out == "pod/a condition met\n"
        )
        late = quadrant(
            "wait", "pod/a", "--for=condition=PodScheduled", "--timeout=0", "-s", server.url
        )
        assert (late.code, late.err) == (
            1,
            "Error: timed out waiting for the condition on pods/a\n",
        )


def test_wait_for_deletion(quadrant: Quadrant) -> None:
    answers = {
        ("GET", PODS): (200, listed("Pod", pod("a"))),
        ("GET", f"{PODS} watch"): (200, [{"type": "DELETED", "object": pod("a")}]),
    }
    with serving(answers) as server:
        assert quadrant("wait", "pod/a", "--for=delete", "-s", server.url).out == "pod/a deleted\n"
    with serving({("GET", PODS): (200, listed("Pod"))}) as server:
        assert quadrant("wait", "pod/a", "--for=delete", "-s", server.url).code == 0
        missing = quadrant("wait", "pod/a", "--for=condition=X", "-s", server.url)
        assert (missing.code, "not found" in missing.err) == (1, True)


# --- version, completion ----------------------------------------------------------------------


def test_version_of_both(quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({("GET", "/version"): (200, {"gitVersion": "v1.32.0+quadrant.9"})}) as server:
        result = quadrant("version", "-s", server.url)
        assert result.lines[1] == "server v1.32.0+quadrant.9"
        body = json.loads(quadrant("version", "-s", server.url, "-o", "json").out)
        assert body["serverVersion"] == {"gitVersion": "v1.32.0+quadrant.9"}
    monkeypatch.setenv("QUADRANT_SERVER", "http://127.0.0.1:9")
    result = quadrant("version")
    assert (result.code, result.lines[1]) == (0, "server <unknown>")
    assert quadrant("version", "--client").lines == result.lines[:1]
    assert result.lines[0].endswith(f"schema {SCHEMA} of the ledger, wire {WIRE}")
    client = json.loads(quadrant("version", "--client", "-o", "json").out)
    assert (client["ledgerSchema"], client["wire"]) == (SCHEMA, WIRE)
    assert quadrant("version", "-s", "http://127.0.0.1:9").code == 1


def _proposed(*words: str) -> list[str]:
    """As a shell asks: a new process each time."""
    code = "import sys; from laboratory.cli.app import kubectl_complete as c; c()"
    completed = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, check=True
    )
    assert completed.stderr == ""
    *result, directive = completed.stdout.splitlines()
    assert directive == ":4"
    return result


def test_completion_offers_the_servers_objects() -> None:
    answers = {("GET", PODS): (200, listed("Pod", pod("web-0"), pod("web-1"), pod("db")))}
    with serving(answers) as server:
        at = ["--server", server.url]
        assert _proposed("des") == ["describe"]
        assert _proposed("get", *at, "po") == ["podgroups", "pods"]
        assert _proposed("get", *at, "nodes,po") == ["nodes,podgroups", "nodes,pods"]
        assert _proposed("get", *at, "pods", "web") == ["web-0", "web-1"]
        assert _proposed("get", *at, "pods", "web-0", "web") == ["web-1"]
        assert _proposed("delete", *at, "pod/d") == ["pod/db"]
        assert _proposed("queue", "cl") == ["close"]
        assert _proposed("explain", *at, "po") == ["pod", "podgroup"]
        assert _proposed("explain", *at, "pod", "web") == ["web-0", "web-1"]
        assert _proposed("story", *at, "pod", "default/d") == ["default/db"]
        assert "--selector" in _proposed("get", "--sel")


def test_completion_is_silent_without_a_server_and_with_a_slow_one() -> None:
    assert _proposed("get", "--server", "http://127.0.0.1:9", "po") == []
    with serving({}) as server:
        server.slow = 1.5
        assert _proposed("get", "--server", server.url, "po") == []


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(words, command) of every command below this one that is no group."""
    if not (below := getattr(command, "commands", {})):
        yield path, command
    for name, child in below.items():
        yield from _commands(child, f"{path} {name}")


def test_every_argument_that_names_something_is_completed() -> None:
    """One that is added without completion fails here."""
    naming = {
        f"{words} {argument.metavar}": argument
        for entry in ENTRIES
        for words, command in _commands(entry.load(), entry.name)
        for argument in command.params
        if isinstance(argument, TyperArgument)
        and any(word in (argument.metavar or "") for word in ("NAME", "ROLE", "shard-N"))
    }
    assert len(naming) > 12
    assert [words for words in naming if naming[words]._custom_shell_complete is None] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(quadrant: Quadrant, shell: str) -> None:
    result = quadrant("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert f"_QUADRANT_COMPLETE=complete_{shell}" in result.out


# --- top, queues ------------------------------------------------------------------------------

STATUS = {
    "jobs": {"submitted": 60, "running": 41, "pending": 9, "finished": 10},
    "tasks": {"running": 400, "pending": 72, "finished": 88, "bound": 488},
    "resources": {
        "cpu": {"total": 64_000, "used": 32_000},
        "memory": {"total": 1 << 40, "used": 1 << 39},
        "pods": {"total": 100, "used": 1},
        "nvidia.com/gpu": {"total": 512_000, "used": 384_000},
    },
    "pending_reasons": {"Fragmented": 3, "WaitingForQuota": 6},
    "shards": [
        {"shard": 0, "nodes": 500, "up": True, "epoch": "3:ab", "outstanding": 12},
        {"shard": 1, "nodes": 500, "up": False, "epoch": None, "outstanding": 0},
    ],
}


METRICS = """\
# HELP quadrant_queue_share x
quadrant_queue_share{queue="default"} 0.0
quadrant_queue_share{queue="research"} 0.75
quadrant_queue_weight{queue="research"} 3.0
quadrant_queue_resource{kind="allocated",queue="research",resource="cpu"} 4.5
quadrant_queue_resource{kind="allocated",queue="research",resource="memory"} 1.073741824e+09
quadrant_queue_resource{kind="allocated",queue="research",resource="nvidia.com/gpu"} 48.0
quadrant_queue_resource{kind="allocated",queue="research",resource="pods"} 3.0
quadrant_queue_resource{kind="deserved",queue="research",resource="nvidia.com/gpu"} 64.0
quadrant_unadmitted_jobs{queue="research",reason="Fragmented"} 1.0
quadrant_unadmitted_jobs{queue="research",reason="WaitingForQuota"} 5.0
quadrant_unadmitted_jobs{queue="",reason="Misconfigured"} 2.0
"""


def _queue(name: str) -> dict[str, Any]:
    return queue(name, weight=3)


@pytest.fixture
def answers() -> dict[tuple[str, str], Any]:
    queues = [_queue("default"), _queue("research"), _queue("new")]
    return {
        ("GET", "/apis/quadrant.dev/v1alpha1/status"): (200, STATUS),
        ("GET", "/metrics"): (200, METRICS),
        ("GET", QUEUES): (200, listed("Queue", *queues, version="scheduling.volcano.sh/v1beta1")),
    }


def test_queues(quadrant: Quadrant, answers: dict[tuple[str, str], Any]) -> None:
    with serving(answers) as server:
        result = quadrant("queue", "list", "-s", server.url)
        wide = quadrant("queue", "list", "-o", "wide", "-s", server.url)
        assert quadrant("queue", "list", "-o", "name", "-s", server.url).lines == [
            "queue.scheduling.volcano.sh/default",
            "queue.scheduling.volcano.sh/research",
            "queue.scheduling.volcano.sh/new",
        ]
    assert result.lines == [
        "NAME STATE WEIGHT SHARE ALLOCATED DESERVED PENDING REASON",
        "default Open 3 0.00 <none> <none> 0 <none>",
        "research Open 3 0.75 48 gpu, 4.5 cpu 64 gpu 6 WaitingForQuota 5, Fragmented 1",
        "new Open 3 <unknown> <unknown> <unknown> <unknown> <unknown>",
    ]
    assert "48 gpu, 4.5 cpu, 1Gi memory" in wide.out


@pytest.mark.parametrize("width", [80, 200])
def test_top_fits_the_terminal(
    quadrant: Quadrant,
    answers: dict[tuple[str, str], Any],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with serving(answers) as server:
        result = quadrant("top", "--once", "-s", server.url)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= width
    text = "\n".join(result.lines)
    assert "384 of 512, 75%" in text
    assert "41 running, 9 pending, 10 finished" in text
    assert "Waits WaitingForQuota 6, Fragmented 3" in text
    assert "0 Up 500 12 3:ab" in text
    assert "1 Down 500 0 <none>" in text
    research = "research Open 3 0.75 48 gpu, 4.5 cpu 6"
    assert research in text
    assert ("WaitingForQuota 5" in text) is (width == 200)


def test_top_on_a_terminal_ends_with_q(answers: dict[tuple[str, str], Any]) -> None:
    """On the terminal's second screen, drawn more than once; the first one is as it was."""
    master, slave = pty.openpty()
    with serving(answers) as server:
        command = [sys.executable, "-m", "laboratory.cli", "top", "--interval=100ms"]
        top = subprocess.Popen(
            [*command, "-s", server.url],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        )
        os.close(slave)
        looks = time.monotonic() + 60
        while len(server.asked) < 12 and time.monotonic() < looks:
            time.sleep(0.02)
        os.write(master, b"q")
        drawn = _drain(master)
        _, error = top.communicate(timeout=60)
    assert (top.returncode, error) == (0, b"")
    assert drawn.startswith("\x1b[?1049h")
    assert drawn.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in drawn
    assert drawn.count("q quits") > 1
    assert "research" in drawn


def _drain(descriptor: int) -> str:
    result = b""
    with contextlib.suppress(OSError):  # the other end was closed
        while data := os.read(descriptor, 1 << 16):
            result += data
    os.close(descriptor)
    return result.decode(errors="replace")
