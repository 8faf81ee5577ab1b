"""Lines of other programs as JSON, and what ends a process of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

from shared.ledger.redis.server import EmbeddedServer
from shared.telemetry.relay import Relay, json_line


def test_every_line_becomes_a_log_line(tmp_path: Path) -> None:
    program = "print('\\x1b[31mred\\x1b[0m');print();print('W 1: ERROR it broke');print('a\\tb')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    relay = Relay(process.stdout, (tmp_path / "log").open("ab"), "other")
    assert process.wait(timeout=60) == 0
    relay.finish(60)
    lines = [orjson.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "red"),
        ("warning", "W 1: ERROR it broke"),
        ("info", "a\tb"),
    ]
    assert {line["logger"] for line in lines} == {"other"}


def test_the_sign_of_a_redis_server_is_its_level() -> None:
    calm = json_line("77:M 23 Nov 2026 23:08:27.216 * Ready to accept connections", "ledger")
    bad = json_line("77:M 23 Nov 2026 23:08:27.216 # Out of memory", "ledger")
    assert orjson.loads(calm)["level"] == "info"
    assert orjson.loads(bad)["level"] == "warning"


def test_the_log_of_the_ledgers_server_is_json(short_dir: Path) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data", json_log=True)
    server.start()
    server.stop()
    assert server._last_lines()  # waits for the last one
    lines = [orjson.loads(line) for line in server.log.read_bytes().splitlines()]
    assert len(lines) > 3
    assert any("accept connections" in line["event"] for line in lines)


def test_an_error_that_ends_a_process_is_one_log_line() -> None:
    program = (
        "from shared.telemetry.logging import configure_logging, log_uncaught\n"
        "import warnings\n"
        "configure_logging('info', 'json'); log_uncaught()\n"
        "warnings.warn('careful')\n"
        "raise ValueError('no')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert result.returncode == 1
    warned, ended = [orjson.loads(line) for line in result.stderr.splitlines()]
    assert "careful" in warned["event"]
    assert (ended["event"], ended["level"]) == ("Ended by an error: no", "critical")
    assert "ValueError: no" in ended["exception"]
