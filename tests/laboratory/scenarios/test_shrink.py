"""A failing seed is made small, kept, and run again to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from laboratory.cli.app import run
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from laboratory.scenarios.shrink import smallest
from laboratory.simulation.scenario import Scenario
from tests.shared.ledger.changed_rules import insert_at_start


@pytest.mark.parametrize("needed", [{3}, {0, 15}, {2, 3, 11}, set(range(16))])
def test_shrinking_leaves_only_the_needed_faults(needed: set[int]) -> None:
    def fails(items: Sequence[int]) -> bool:
        return needed <= set(items)

    assert set(smallest(range(16), fails)) == needed


def test_nothing_is_left_where_it_fails_by_itself() -> None:
    assert list(smallest([1, 2, 3], lambda _: True)) == []


@pytest.mark.parametrize("seed", [1, 12, 15])
def test_scenario_as_text_is_the_scenario(seed: int) -> None:
    assert Scenario.from_json(scenario(seed).to_json()) == scenario(seed)


def test_without_stories_nobody_speaks_of_them() -> None:
    whole = scenario(12)
    stories = whole.stories()
    assert len(stories) > 3
    less = whole.without({stories[0]})
    assert less.stories() == stories[1:]
    assert not play(less).broken


@pytest.mark.all
def test_failing_seed_leaves_a_small_scenario_that_fails_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the check of fit, two workers that plan on old views overfill a node."""
    fits = "if true then return COMMITTED end"
    insert_at_start(monkeypatch, "local function misfit(row, cls, kind, devices)", fits)
    seed = next(s for s in range(100) if play(scenario(s)).broken)
    only = ["--seeds", f"{seed}..{seed}", "--keep", str(tmp_path), "--shrink", "30"]
    code = run(["chaos", "sim", *only, "-o", "json"])
    assert code == 1
    captured = capsys.readouterr()
    assert f"seed {seed} fails: promise 2" in captured.err
    assert orjson.loads(captured.out.splitlines()[-1])["violations"][0]["seed"] == seed

    file = tmp_path / f"sim-{seed}.json"
    small = Scenario.from_json(file.read_text())
    assert len(small.stories()) < len(scenario(seed).stories())
    histories = tmp_path / "a", tmp_path / "b"
    for history in histories:
        assert run(["chaos", "sim", "--scenario", str(file), "--history", str(history)]) == 1
    first, second = (history.read_bytes() for history in histories)
    assert first == second
    assert run(["chaos", "check", str(histories[0]), "-o", "json"]) == 1

    monkeypatch.undo()
    assert run(["chaos", "sim", "--scenario", str(file)]) == 0


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.all
def test_last_line_is_the_common_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "sim", "--seeds", "1..4", "--jobs", "1", "-o", "json"]) == 0
    result = orjson.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) == {"seeds", "faults", "recovery_s", "tasks_bound", "violations"}
    assert result["seeds"] == 4
    assert result["tasks_bound"] > 0


@pytest.mark.all
def test_processes_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for jobs in ("1", "2"):
        assert run(["chaos", "sim", "--seeds", "20..22", "--jobs", jobs, "-o", "json"]) == 0
        results.append(capsys.readouterr().out)
    assert results[0] == results[1]


@pytest.mark.parametrize("seeds", ["5", "9..3", "1-4", "a..b", ""])
def test_an_invalid_seed_range_is_refused(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "sim", "--seeds", seeds]) == 2
    assert "write it as 1..500" in capsys.readouterr().err


def test_an_invalid_scenario_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    surplus = scenario(1).to_json().replace("{", '{"more": 1,', 1)
    for text in ("", "[]", "{}", '{"seed": 1}', "\x00", surplus):
        file.write_text(text)
        assert run(["chaos", "sim", "--scenario", str(file)]) == 1
        assert "not a scenario" in capsys.readouterr().err
    assert run(["chaos", "sim", "--scenario", str(tmp_path / "none")]) == 1
    assert "cannot read it" in capsys.readouterr().err
    assert run(["chaos", "sim", "--history", str(file)]) == 2
