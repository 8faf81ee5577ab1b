"""Requests of a hostile tenant, and the report on those who waited beside it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from rich.console import Console

from coordinator.api.auth.token_file import read_tokens_file
from coordinator.intake.intake import Intake
from coordinator.intake.principal import TokenRole
from coordinator.supervisor.supervisor import COORDINATOR
from laboratory.chaos.faults import InjectedFault
from laboratory.chaos.hostile_tenant import (
    DOCUMENT_BYTES,
    MEMBERS,
    NAMESPACE,
    QUEUE,
    QUEUES,
    Hostile,
    documents,
    queue_names,
    queues,
)
from laboratory.chaos.judgement import LOST_WITHIN_SECONDS, explains
from laboratory.chaos.load import cluster
from laboratory.chaos.plan import (
    CLUSTER,
    LEADER,
    LEDGER,
    RAY,
    WORKER,
    InjectionKind,
    PlannedFault,
)
from laboratory.chaos.report import ChaosReport
from laboratory.chaos.response_times import ResponseTimes
from laboratory.chaos.tokens import Tokens
from laboratory.workloads.generators import ClusterShape
from shared.policy.model import Dialect
from shared.policy.reading import load_yaml


def struck(kind: InjectionKind, target: str, at: float, over: float | None = None) -> InjectedFault:
    length = 0.0 if over is None else over - at
    return InjectedFault(
        PlannedFault(at, kind, target, length, 0.0), target, at, at if over is None else over
    )


def test_documents_are_of_the_size_that_is_taken_and_are_yaml() -> None:
    result = documents()
    assert len({body[:20] for body in result}) == len(result) > 2
    for body in result:
        assert 0.9 * DOCUMENT_BYTES < len(body) <= DOCUMENT_BYTES
        head = body[:2000].rsplit(b"\n", 1)[0].decode()
        assert load_yaml(head.splitlines()[0]) is not None


def test_the_tenant_may_do_little(tmp_path: Path) -> None:
    tokens = Tokens.new(tmp_path / "tokens")
    assert stat.S_IMODE(tokens.file.stat().st_mode) == 0o600
    book = read_tokens_file(tokens.file)
    admin, view, submit = (book.find(t) for t in (tokens.admin, tokens.view, tokens.submit))
    assert admin is not None and admin.role is TokenRole.ADMIN
    assert view is not None and view.role is TokenRole.VIEW
    assert submit is not None and submit.role is TokenRole.SUBMIT
    assert submit.queues == frozenset([QUEUE, *queue_names()]) and submit.namespaces == frozenset(
        [NAMESPACE]
    )


@pytest.mark.parametrize("dialect", Dialect)
def test_the_tenants_pods_and_queues_are_taken_under_each_dialect(dialect: Dialect) -> None:
    """An attack whose objects are refused would strike nobody."""
    of_kai = dialect is Dialect.KAI
    tree = cluster(ClusterShape(nodes=1, units=8), [], of_kai=of_kai)
    intake, sent = Intake(dialect=dialect), [*tree, *queues(of_kai=of_kai)]
    sent += Hostile([""], "", "", of_kai=of_kai).pods_in_many_queues()
    sent += Hostile([""], "", "", of_kai=of_kai, _round=1).group_of_pods()
    outcome = intake.admit(sent, 1.0)
    assert not outcome.refused
    jobs = list(intake.registry.jobs.values())
    assert len({job.queue for job in jobs}) == QUEUES + 1
    groups = [job for job in jobs if job.kind == "PodGroup"]
    assert [(group.queue, group.tasks) for group in groups] == [(QUEUE, MEMBERS - 1)]


@pytest.mark.parametrize(
    ("blow", "counted"),
    [
        (struck(InjectionKind.KILL, LEADER, 100.0), 2),
        (struck(InjectionKind.PAUSE, LEDGER, 98.0, 101.0), 2),
        (struck(InjectionKind.KILL, RAY, 91.0), 2),
        (struck(InjectionKind.KILL, WORKER, 50.0), 3),
        (struck(InjectionKind.KILL, CLUSTER, 50.0), 3),
        (struck(InjectionKind.REWRITE, LEDGER, 99.0), 3),
    ],
)
def test_a_request_in_the_time_of_a_recovery_is_not_counted(
    blow: InjectedFault, counted: int
) -> None:
    answers = ResponseTimes([(1.0, 1.1), (2.0, 2.2), (102.0, 110.0)])
    p99, count = answers.p99([blow])
    assert count == counted
    assert p99 is not None and (p99 > 7) is (counted == 3)


def test_nothing_is_said_of_too_few() -> None:
    assert ResponseTimes([(1.0, 2.0)]).p99([]) == (None, 1)


def test_a_death_is_explained_by_a_blow_before_it() -> None:
    kill = struck(InjectionKind.KILL, LEADER, 10.0)
    assert explains(kill, 10.1, COORDINATOR)
    assert not explains(kill, 9.9, COORDINATOR)
    assert not explains(kill, 11.0 + LOST_WITHIN_SECONDS, COORDINATOR)
    assert not explains(kill, 10.1, LEDGER)
    assert explains(struck(InjectionKind.KILL, RAY, 10.0), 12.0, COORDINATOR)
    assert not explains(struck(InjectionKind.KILL, WORKER, 10.0), 12.0, COORDINATOR)


def test_the_report_has_waits_and_answers() -> None:
    report = ChaosReport(seeds=1)
    assert "posts" not in report.result() and "hostile" not in report.result()
    report.waits(0.25, 19, limit=0.2)
    report.answered.update({"documents: 429": 3})
    body = json.loads(report.line())
    posts = {"count": 19, "p99_ms": 250.0, "limit_ms": 200.0, "verdict": "not judged"}
    assert body["posts"] == posts and report.ok  # too few to say
    assert body["hostile"] == {"documents: 429": 3}


@pytest.mark.parametrize(
    ("p99", "limit", "verdict"),
    [(0.4, 0.5, "held"), (0.6, 0.5, "violated"), (0.6, 0.0, "not judged")],
)
def test_response_times_are_a_row_of_the_verdict(p99: float, limit: float, verdict: str) -> None:
    report = ChaosReport(seeds=1)
    report.waits(p99, 100, limit=limit, seed=7)
    assert report.ok is (verdict != "violated")
    assert json.loads(report.line())["posts"]["verdict"] == verdict
    console = Console(width=120)
    with console.capture() as capture:
        console.print(report.table())
    (row,) = [line.split() for line in capture.get().splitlines() if line.startswith("POST")]
    assert row[:2] == ["POST", "100"] and " ".join(row).endswith(verdict)
    texts = [str(violation) for violation in report.violations]
    expected = "seed 7: 99% of 100 requests outside of recoveries were answered within 600 ms"
    assert texts == ([f"{expected}, the limit is 500 ms"] if verdict == "violated" else [])
