"""Log lines have their keys, repeats are counted and not repeated, series stay bounded."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path

import structlog

from shared.telemetry.logging import PrintedLines, RepeatLimit, configure_logging
from tests.conftest import ROOT


def test_a_line_is_json_with_the_known_keys_first() -> None:
    out = io.StringIO()
    configure_logging(stream=out, role="coordinator")
    structlog.get_logger("coordinator.core.coordinator").info(
        "Refused statement", shard=3, job="a/b"
    )
    logging.getLogger("aiohttp").warning("from the %s", "library")
    structlog.get_logger("x").debug("not at this level")
    ours, theirs = [json.loads(line) for line in out.getvalue().splitlines()]
    assert list(ours)[:4] == ["ts", "level", "event", "logger"]
    assert ours["ts"].endswith("Z")
    assert (ours["logger"], ours["shard"], ours["role"]) == (
        "coordinator.core.coordinator",
        3,
        "coordinator",
    )
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


def test_printed_lines_become_log_lines() -> None:
    out = io.StringIO()
    configure_logging("info", "json", stream=out)
    with contextlib.redirect_stdout(PrintedLines()):
        print("\x1b[33m(raylet)\x1b[0m A worker", "died")  # noqa: T201
        print("two\n\nlines, and", end=" ")  # noqa: T201
        print("an end")  # noqa: T201
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["logger"], line["level"]) for line in lines] == [("stdout", "info")] * 3
    printed = ["(raylet) A worker died", "two", "lines, and an end"]
    assert [line["event"] for line in lines] == printed


PRINTS_AND_LOGS = """
import sys, threading, structlog
import coordinator.service.process, shared.telemetry.logging

def prints():
    for _ in range(20_000):
        print("Printed " + 1000 * "x")

def run():
    thread = threading.Thread(target=prints)
    thread.start()
    while thread.is_alive():
        structlog.get_logger().warning("Logged")

shared.telemetry.logging.RepeatLimit.passes = lambda *_: 0
shared.telemetry.logging.configure_logging("info", "json")
sys.exit(coordinator.service.process.exit_code(run))
"""


def test_no_log_line_begins_in_the_middle_of_a_printed_one(tmp_path: Path) -> None:
    """As the supervisor starts a coordinator: both streams into one file, without buffers."""
    with (tmp_path / "log").open("wb") as log:
        program = [sys.executable, "-u", "-c", PRINTS_AND_LOGS]
        subprocess.run(program, stdout=log, stderr=log, cwd=ROOT, check=True, timeout=100)
    lines = (tmp_path / "log").read_text().splitlines()
    assert Counter(line[:1] for line in lines) == {"{": len(lines)}
    assert {json.loads(line)["event"][:7] for line in lines} == {"Printed", "Logged"}
