"""``quadrant lab --paper``: refusals, and the committed tables in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cli.options.failure import CommandError
from laboratory.papers import measure
from laboratory.papers.paper import NAMES, PaperTable, experiment
from tests.conftest import ROOT
from tests.laboratory.lab.weeks import lab

PAGE = (ROOT / "docs" / "laboratory.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--paper", "unknown"), "'unknown' is none of fgd"),
        (("week.csv", "--paper", "fgd"), "leave WEEK out"),
        ((), "there is no WEEK"),
        (("--paper", "fgd", "--seeds", "x"), "--seeds"),
    ],
)
def test_refusals_name_the_option(arguments: tuple[str, ...], text: str) -> None:
    result = lab(*arguments)
    assert isinstance(result.exception, CommandError)
    assert text in str(result.exception)
    assert result.exception.code == 2


def test_without_the_data_one_sentence_says_where_to_get_it(tmp_path: Path) -> None:
    for name in NAMES:
        result = lab("--paper", name, "--data", tmp_path)
        assert isinstance(result.exception, CommandError)
        assert f"get the files from {experiment(name).DATA} into " in str(result.exception)
        assert "\n" not in str(result.exception)


def test_both_sides_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Measured:
        FOLDER = "openb"
        SEEDS = (1,)
        DATA = ""

        @staticmethod
        def measure(run: object) -> dict[tuple[str, str], float]:
            return {("FGD", "100%"): 12.34}

    monkeypatch.setattr(measure, "experiment", lambda _: Measured)
    (tmp_path / "openb").mkdir()
    result = lab("--paper", "fgd", "--data", tmp_path)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    (at,) = (number for number, line in enumerate(lines) if line[:2] == ["FGD", "published"])
    assert lines[at][10] == "95.23"
    assert lines[at + 1][9] == "12.34"
    assert "Differences of method:" in result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_committed_table(name: str) -> None:
    table = PaperTable.committed(name)
    assert table.command in PAGE
    measures = list(dict.fromkeys(figure.measure for figure in table.figures))
    cells = {(figure.case, figure.measure): figure for figure in table.figures}
    for case in dict.fromkeys(figure.case for figure in table.figures):
        for side, label in (("published", case), ("ours", "")):
            values = [getattr(cells.get((case, m)), side, None) for m in measures]
            texts = ["-" if value is None else f"{value:,.2f}" for value in values]
            assert f"| {label} | {side} | {' | '.join(texts)} |" in PAGE
