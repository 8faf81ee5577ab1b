"""``quadrant chaos check FILE``."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli.options.options import Output
from coordinator.supervisor.live_run import LOCK, claim
from laboratory.cli.chaos.chaos import app
from laboratory.cli.chaos.chaos_check import run_check
from tests.laboratory.checker.story import Story, good_story


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return good_story().write(tmp_path / "good.jsonl")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    story = Story()
    story.job(1, 3, minimum=3)
    story.commit(1, {0: 0, 1: 0})
    return story.write(tmp_path / "bad.jsonl")


def test_good_file_ends_with_0(good: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(good), "--closed"])
    assert result.exit_code == 0
    assert "Every promise was kept" in result.output


def test_without_a_file_the_history_of_the_running_server_is_checked(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with (tmp_path / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        claim(lock, good, pid=os.getpid())
        result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 0
    assert str(good) in result.output.replace("\n", "")
    assert "Every promise was kept" in result.output
    without = CliRunner().invoke(app, ["check"])
    assert without.exit_code != 0
    assert f"runs in {tmp_path}; start one" in str(without.exception)


def test_bad_file_ends_with_1_and_the_event_is_named(bad: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(bad)])
    assert result.exit_code == 1
    assert "line 7 (commit): promise 3: group 0 of job 1" in result.output
    assert "from 0 to 2 held members, its minimum is 3" in result.output


def test_json(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check(bad, Output.JSON) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["ok"]
    assert result["broken"] == {"3": 1}
    assert result["violations"][0]["line"] == 7
    assert result["violations"][0]["rule"] == "gang-whole"
    states = {row["rule"]: row["state"] for row in result["promises"]}
    assert states["gang-whole"] == "violated"
    assert states["queue-capability"] == "held"
    assert states["devices"] == "not exercised"
    assert {row["promise"] for row in result["promises"]} == set(range(1, 11))
    assert result["summary"]["gangs_partly_bound"] == 1


def test_open_run_is_not_a_closed_one(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    path = story.write(tmp_path / "open.jsonl")
    assert CliRunner().invoke(app, ["check", str(path)]).exit_code == 0
    assert CliRunner().invoke(app, ["check", str(path), "--closed"]).exit_code == 1


def test_a_file_that_is_not_a_history_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text("hello\n")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 2
    assert "line 1 is not an event of a history" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
