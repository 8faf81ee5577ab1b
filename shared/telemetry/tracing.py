"""Traces, where a collector exists: the extra ``otel``, configured by the usual OTEL_* variables.

Off unless one of :data:`_WANTED` is set and the extra is installed; a span then costs one look at a
variable. Spans are of requests, of calls to workers and of commits: never of tasks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, Tracer

_WANTED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAME = "quadrant"
_OFF = contextlib.nullcontext()

_tracer: Tracer | None = None


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the variables ask for traces."""
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = environment.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none"
    return not off and not none and any(environment.get(name) for name in _WANTED)


def configure_tracing(role: str) -> bool:
    """Set up tracing where the variables ask for it; return True where traces are written now."""
    if not wanted():
        return False
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        import structlog

        structlog.get_logger(__name__).warning(
            "Traces are asked for, but cannot be written",
            remedy="pip install 'quadrant[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT",
        )
        return False
    trace_to(BatchSpanProcessor(OTLPSpanExporter()), role)
    return True


def trace_to(processor: SpanProcessor, role: str) -> None:
    """Send this process's spans there from now on; flush the last ones at exit."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer  # noqa: PLW0603
    name = os.environ.get("OTEL_SERVICE_NAME") or _NAME
    resource = Resource.create({"service.name": name, "quadrant.role": role})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer(_NAME)


def tracing() -> bool:
    return _tracer is not None


def span(
    name: str, *, when: bool = True, **attributes: str | int
) -> AbstractContextManager[object]:
    """A span around a block, as a child of the current span. Attributes get our prefix."""
    if _tracer is None or not when:
        return _OFF
    prefixed = {f"quadrant.{key}": value for key, value in attributes.items()}
    return _tracer.start_as_current_span(name, attributes=prefixed)


@contextlib.contextmanager
def request_span(method: str, route: str, headers: Mapping[str, str]) -> Iterator[Span | None]:
    """A span of a request, inside the span that its ``traceparent`` (W3C) names; log lines of the
    block have its ``trace_id``."""
    if _tracer is None:
        yield None
        return
    import structlog
    from opentelemetry.trace import SpanKind, format_trace_id
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {key.lower(): value for key, value in headers.items()}
    parent = TraceContextTextMapPropagator().extract(carrier)
    attributes = {"http.request.method": method, "http.route": route}
    with _tracer.start_as_current_span(
        f"{method} {route}", context=parent, kind=SpanKind.SERVER, attributes=attributes
    ) as opened:
        number = format_trace_id(opened.get_span_context().trace_id)
        with structlog.contextvars.bound_contextvars(trace_id=number):
            yield opened
