"""Logs and metrics: how every process writes a log line, and the one registry it counts in.

A log line has ``ts level event logger`` first, then what the caller gives: ``job shard session
epoch statement revision trace_id`` where they apply. It is JSON unless a person is reading.
Sentences start with a capital, are past tense, end without a full stop. Nothing is logged per task
above debug.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, TextIO, TypeVar

import orjson
import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

PREFIX = "quadrant_"
_FIRST = ("ts", "level", "event", "logger")
_PER_OBJECT = frozenset({"job", "task", "pod", "node", "user", "name", "namespace", "id"})
"""Labels that would make a series for every object of the cluster."""

Event = MutableMapping[str, Any]
Metric = TypeVar("Metric", Counter, Gauge, Histogram)


def configure_logging(
    level: str = "info", form: str = "auto", *, stream: TextIO | None = None, **bound: Any
) -> None:
    """Set up structlog and the standard library's loggers alike, to ``stream`` (default stderr).

    ``form`` is auto, json or console; auto is JSON unless the stream is a terminal. ``bound`` goes
    on every line of this process (``role="coordinator"``).
    """
    out = stream or sys.stderr
    machine = form == "json" or (form == "auto" and not out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _json_line if machine else structlog.dev.ConsoleRenderer(timestamp_key="ts"),
            ],
        )
    )
    handler.addFilter(_repeated_by_libraries())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            RepeatLimit(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**bound)


class RepeatLimit:
    """Lets an event of a logger through ``limit`` times in ``period`` seconds, then counts it.

    The first one of the next period says how many were left out (``left_out``).
    """

    def __init__(
        self, limit: int = 20, period: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._period = period
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, logger: Any, method: str, event: Event) -> Event:
        left_out = self.passes(getattr(logger, "name", ""), str(event.get("event", "")))
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    def passes(self, logger: str, event: str) -> int | None:
        """How many were left out before this one, which may pass; None where it may not."""
        now = self._clock()
        key = (logger, event)
        since, count = self._seen.get(key, (now, 0))
        left_out = 0
        if now - since >= self._period:
            left_out = max(0, count - self._limit)
            since, count = now, 0
        self._seen[key] = (since, count + 1)
        if len(self._seen) > 1000:
            self._forget(now)
        return None if count >= self._limit else left_out

    def _forget(self, now: float) -> None:
        kept = {k: seen for k, seen in self._seen.items() if now - seen[0] < self._period}
        self._seen = kept if len(kept) <= 1000 else {}


def _repeated_by_libraries() -> Callable[[logging.LogRecord], bool]:
    """The same limit for lines that do not come through structlog, whose ``msg`` is a text."""
    limit = RepeatLimit()

    def passes(record: logging.LogRecord) -> bool:
        return (
            isinstance(record.msg, dict) or limit.passes(record.name, str(record.msg)) is not None
        )

    return passes


def _json_line(_: Any, __: str, event: Event) -> str:
    ordered = {key: event.pop(key) for key in _FIRST if key in event}
    return orjson.dumps({**ordered, **event}, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class Metrics:
    """The series of one process. Names get the prefix; asking again for a name gives the same one.

    Errors: ValueError for a label that would hold an object's name, or a unit that is not a base
    unit (``_seconds``, not ``_milliseconds``).
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return self._get(Counter, name, labels, documentation=text)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return self._get(Gauge, name, labels, documentation=text)

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Histogram:
        return self._get(Histogram, name, labels, documentation=text, buckets=buckets)

    def exposition(self) -> tuple[bytes, str]:
        """Body and content type of a scrape."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def _get(self, kind: type[Metric], name: str, labels: Sequence[str], **rest: Any) -> Metric:
        made = self._made.get(name)
        if made is None:
            _check(name, labels)
            made = kind(PREFIX + name, labelnames=labels, registry=self.registry, **rest)
            self._made[name] = made
        if not isinstance(made, kind):
            raise ValueError(f"metric {name} is a {type(made).__name__} already; use another name")
        return made


def _check(name: str, labels: Sequence[str]) -> None:
    if wrong := _PER_OBJECT.intersection(labels):
        raise ValueError(f"metric {name}: label {sorted(wrong)[0]} has no bound; leave it out")
    if name.endswith(("_ms", "_us", "_milliseconds", "_microseconds")):
        raise ValueError(f"metric {name}: give it in seconds")


# Without this every counter has a second series, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it ships without annotations

METRICS = Metrics()
"""What ``/metrics`` of this process shows."""
