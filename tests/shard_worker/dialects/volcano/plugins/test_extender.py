"""extender: rules answered by a process of the user's own, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.dialects.volcano.plugins.node.extender import FAILED, ExtenderQuestion
from shard_worker.harness import Cluster, Result
from shard_worker.turns.extender_http import LONGEST, ask_over_http, with_answers
from shared.policy.model import PluginOption


class Extender:
    """Answers by verb with what a test says, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, Any] = {}
        handler = self._handler()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/ext"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        extender = self

        class ExtenderHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.rpartition("/")[2]
                extender.asked[verb] += 1
                answer = extender.answers.get(verb)
                reply = answer(body) if callable(answer) else answer
                data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(500 if answer is None else 200)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Nothing: the test looks at what was asked."""

        return ExtenderHandler


@pytest.fixture
def extender() -> Iterator[Extender]:
    extender_plugin = Extender()
    thread = threading.Thread(target=extender_plugin.server.serve_forever, args=(0.01,))
    thread.start()
    yield extender_plugin
    extender_plugin.server.shutdown()
    thread.join()
    extender_plugin.server.server_close()


def cluster(extender: Extender, *verbs: str, **more: Any) -> Cluster:
    arguments = {"extender.urlPrefix": extender.url, **{f"extender.{v}Verb": v for v in verbs}}
    session_cluster = Cluster("gang", PluginOption("extender", {**arguments, **more}))
    for name in ("a", "b"):
        session_cluster.node(name, cpu=2)
    return session_cluster


def run(cluster: Cluster) -> Result:
    """As a worker does: from nothing each time, with the answers that are known by then."""
    seen_questions: dict[str, object] = {}

    def once() -> Result:
        fresh = cluster.again()
        fresh.world.objects.extender = seen_questions
        return fresh.run()

    return with_answers(once, seen_questions, ask_over_http)


def test_nodes_that_it_refuses_are_not_taken(extender: Extender) -> None:
    extender.answers["predicate"] = lambda body: {"code": int(body["node"] == "a")}
    small_cluster = cluster(extender, "predicate")
    small_cluster.job("job", tasks=2, minimum=1, cpu=1)
    assert run(small_cluster).binds == {"default/job-0": "b", "default/job-1": "b"}
    assert extender.asked["predicate"] == 4  # two tasks, two nodes: each once


def test_its_scores_count(extender: Extender) -> None:
    extender.answers["prioritize"] = {"nodeScore": {"a": 1, "b": 7, "c": "x"}}
    small_cluster = cluster(extender, "prioritize")
    small_cluster.job("job")
    assert run(small_cluster).binds == {"default/job-0": "b"}


@pytest.mark.parametrize(("ignorable", "bound"), [(True, 1), (False, 0)])
def test_when_it_does_not_answer(extender: Extender, ignorable: bool, bound: int) -> None:
    small_cluster = cluster(extender, "predicate", **{"extender.ignorable": ignorable})
    small_cluster.job("job")
    assert len(run(small_cluster).binds) == bound


def test_silence_is_told_apart_from_a_refusal(extender: Extender) -> None:
    extender.answers["predicate"] = lambda body: None if body["node"] == "a" else {"code": 1}
    small_cluster = cluster(extender, "predicate")
    small_cluster.job("job")
    questions: dict[str, object] = {}

    def once() -> dict[str, int]:
        fresh = small_cluster.again()
        fresh.world.objects.extender = questions
        session = fresh.open()
        run_actions(session)
        [job] = session.world.session_jobs()
        return dict(job.unschedulable)

    assert with_answers(once, questions, ask_over_http) == {
        "node(s) were refused by the extender": 1,
        "node(s) count as refused: the extender did not answer (no JSON object)": 1,
    }


def test_only_tasks_that_ask_for_its_resources_are_its_business(extender: Extender) -> None:
    extender.answers["predicate"] = {"code": 1}
    managed = {"extender.managedResources": "example.com/chip"}
    small_cluster = cluster(extender, "predicate", **managed)
    small_cluster.job("job")
    assert run(small_cluster).binds
    assert not extender.asked


def test_victims_and_queues_are_asked_about(extender: Extender) -> None:
    extender.answers["preemptable"] = lambda body: {
        "victims": [v["namespace"] + "/" + v["name"] for v in body["evictees"]][:1]
    }
    extender.answers["queueOverused"] = {"overused": True}
    small_cluster = cluster(extender, "preemptable", "queueOverused")
    small_cluster.job("old", tasks=2, minimum=1, on=["a", "b"])
    small_cluster.job("new")
    questions: dict[str, object] = {}

    def once() -> tuple[list[str], bool]:
        fresh = small_cluster.again()
        fresh.world.objects.extender = questions
        session = fresh.open()
        old, new = session.world.session_jobs()
        victims = session.preemptable(new.tasks[0], old.tasks)
        return [task.key for task in victims], session.queue_overused(session.world.queues[0])

    assert with_answers(once, questions, ask_over_http) == (["default/old-0"], True)


@pytest.mark.parametrize("answer", [b"no json", b"[" * 5, b" " * (LONGEST + 2)])
def test_an_answer_that_is_none_is_a_failure(extender: Extender, answer: bytes) -> None:
    extender.answers["predicate"] = answer
    question = ExtenderQuestion(f"{extender.url}/predicate", "{}", 2.0)
    (report,) = ask_over_http([question]).values()
    assert isinstance(report, dict) and FAILED in report


def test_nobody_there_is_a_failure() -> None:
    (report,) = ask_over_http([ExtenderQuestion("http://127.0.0.1:9/x", "{}", 0.5)]).values()
    assert isinstance(report, dict) and FAILED in report
