"""Spans of a request, of what it stores, of the turn that places it and of its commit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from aiohttp import ClientSession

from shared.telemetry import tracing
from tests.builders.objects import a_list, node
from tests.coordinator.api.auth.objects import pod
from tests.end_to_end.one_process.harness import running

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

LISTS = "/apis/quadrant.dev/v1alpha1/lists"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    monkeypatch.setattr(tracing, "_tracer", None)
    exporter = InMemorySpanExporter()
    tracing.trace_to(SimpleSpanProcessor(exporter), "test")
    yield exporter


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def test_a_request_is_followed_to_its_commit(
    spans: InMemorySpanExporter, redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir) as service,
        ClientSession() as session,
    ):
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        asks = pod("p")
        asks["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        body = a_list(node("n"), asks)
        async with session.post(service.url + LISTS, json=body, headers=headers) as answer:
            assert answer.status == 200
        async with session.get(service.url + "/api/v1/namespaces/default/pods/none") as answer:
            assert answer.status == 404
        async with asyncio.timeout(60.0):
            while True:
                if named(spans, "commit") and named(spans, "turns"):
                    break
                await asyncio.sleep(0.02)
    (request,) = named(spans, f"POST {LISTS}")
    assert request.kind is SpanKind.SERVER
    assert request.context is not None
    assert f"{request.context.trace_id:032x}" == TRACE
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == PARENT
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 200
    (intake,) = [s for s in named(spans, "intake") if s.parent is not None]
    assert intake.parent is not None
    assert intake.parent.span_id == request.context.span_id
    assert intake.attributes == {"quadrant.line": "default"}
    (commit, *_), (turns, *_) = named(spans, "commit"), named(spans, "turns")
    assert commit.attributes is not None
    assert turns.attributes is not None
    assert commit.attributes["quadrant.statements"] == 1
    assert turns.attributes["quadrant.turns"] == 1
    (missing,) = [s for s in spans.get_finished_spans() if s.name.endswith("/pods/{name}")]
    assert missing.parent is None
    assert missing.attributes is not None
    assert missing.attributes["http.response.status_code"] == 404


def test_log_lines_of_a_request_have_its_trace(spans: InMemorySpanExporter) -> None:
    with tracing.request_span("GET", "/x", {"TraceParent": f"00-{TRACE}-{PARENT}-01"}):
        assert structlog.contextvars.get_contextvars()["trace_id"] == TRACE
    assert "trace_id" not in structlog.contextvars.get_contextvars()


def test_off_there_is_one_span_for_all_that_does_nothing() -> None:
    assert tracing.span("a", shard=1) is tracing.span("b")
    with tracing.request_span("GET", "/", {}) as opened:
        assert opened is None


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_usual_variables_turn_it_on(variables: dict[str, str], on: bool) -> None:
    assert tracing.wanted(variables) is on


def test_off_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, shard_worker.worker.actor, coordinator.service\n"
        "from shared.telemetry.tracing import configure_tracing\n"
        "assert not configure_tracing('x')\n"
        "ours = ('opentelemetry.exporter', 'opentelemetry.sdk.trace')\n"  # redis loads others
        "print(*(m for m in sys.modules if m.startswith(ours)))"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.split() == []
