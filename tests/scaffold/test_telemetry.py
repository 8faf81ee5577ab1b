"""Log lines have their keys, repeats are counted and not repeated, series stay bounded."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog

from shared.histogram import exponential
from shared.telemetry import Metrics, RepeatLimit, configure_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_a_line_is_json_with_the_known_keys_first() -> None:
    out = io.StringIO()
    configure_logging(stream=out, role="coordinator")
    structlog.get_logger("coordinator.core").info("Refused statement", shard=3, job="a/b")
    logging.getLogger("aiohttp").warning("from the %s", "library")
    structlog.get_logger("x").debug("not at this level")
    ours, theirs = [json.loads(line) for line in out.getvalue().splitlines()]
    assert list(ours)[:4] == ["ts", "level", "event", "logger"]
    assert ours["ts"].endswith("Z")
    assert (ours["logger"], ours["shard"], ours["role"]) == ("coordinator.core", 3, "coordinator")
    assert (theirs["event"], theirs["level"]) == ("from the library", "warning")


def test_an_error_brings_its_traceback_inside_the_line() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    try:
        raise KeyError("gone")
    except KeyError:
        structlog.get_logger("x").exception("Failed to read")
    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert "KeyError: 'gone'" in line["exception"]


def test_repeats_are_left_out_and_counted() -> None:
    now = 0.0
    limit = RepeatLimit(limit=3, period=10.0, clock=lambda: now)

    def say(event: str) -> dict[str, object] | None:
        try:
            return dict(limit(None, "info", {"event": event}))
        except structlog.DropEvent:
            return None

    assert [say("a") is not None for _ in range(5)] == [True, True, True, False, False]
    assert say("b") is not None
    now = 10.0
    assert say("a") == {"event": "a", "left_out": 2}
    assert say("a") == {"event": "a"}


def test_repeats_of_libraries_are_left_out_too() -> None:
    out = io.StringIO()
    configure_logging("info", "json", stream=out)
    for i in range(100):
        logging.getLogger("library").warning("Lost %s", i)
        structlog.get_logger("ours").warning("Lost", number=i)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert Counter(line["logger"] for line in lines) == {"library": 20, "ours": 20}
    assert list(lines[0])[:4] == ["ts", "level", "event", "logger"]


def test_asking_again_gives_the_same_series() -> None:
    metrics = Metrics()
    metrics.counter("statements_total", "Statements", ["shard"]).labels("1").inc()
    metrics.counter("statements_total", "Statements", ["shard"]).labels("1").inc()
    metrics.gauge("shard_up", "Up", ["shard"]).labels("1").set(1)
    metrics.histogram("wait_seconds", "Wait", buckets=exponential(0.1, 2, 3)).observe(0.15)
    text = metrics.exposition()[0].decode()
    assert 'quadrant_statements_total{shard="1"} 2.0' in text
    assert 'quadrant_wait_seconds_bucket{le="0.2"} 1.0' in text
    assert "_created" not in text
    with pytest.raises(ValueError, match="already"):
        metrics.gauge("statements_total", "Statements", ["shard"])


def test_labels_without_bound_and_odd_units_are_refused() -> None:
    with pytest.raises(ValueError, match="label node has no bound"):
        Metrics().counter("binds_total", "Binds", ["node"])
    with pytest.raises(ValueError, match="in seconds"):
        Metrics().gauge("lag_ms", "Lag")
