"""The report: one file without network, whose numbers are those of the summary."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from laboratory.cli.app import app
from laboratory.lab.plots import ticks
from tests.conftest import ROOT
from tests.laboratory.lab.weeks import small, write_csv


class _Page(HTMLParser):
    """Values of cells, addresses, and how often each tag stands open at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[str, float]] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.commands: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in ("meta", "polyline", "path", "wbr"):
            self.open.append(tag)
        if (measure := named.get("data-measure")) is not None:
            self.values.append((measure, float(named["data-value"] or "nan")))
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.commands += [value or "" for name, value in attrs if name == "data-command"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("report")
    (folder / "week <1>.csv").write_text(write_csv(small()[0]))
    policies = ["--policy", str(ROOT / "examples/policies/allocate-only.yaml"), "--shards", "1,2"]
    cluster = ["--nodes", "2", "--gpus-per-node", "4", "--seeds", "1,2", "--processes", "2"]
    out = ["--out", str(folder / "report.html")]
    result = CliRunner().invoke(
        app, ["lab", str(folder / "week <1>.csv"), *policies, *cluster, *out]
    )
    assert result.exit_code == 0, result.output
    return (folder / "report.html").read_text(), json.loads((folder / "summary.json").read_text())


def test_the_numbers_are_those_of_the_summary(made: tuple[str, dict[str, Any]]) -> None:
    page, summary = _Page(), made[1]
    page.feed(made[0])
    assert page.open in (["html"], [])
    shown = {(name, value) for name, value in page.values}
    expected = {
        (name, value["mean"])
        for compared in summary["compared"]
        for name, value in compared["measures"].items()
        if "{" in name or name in {measure for measure, _ in page.values}
    }
    assert shown == expected
    assert len(page.values) > 60


def test_the_page_needs_no_network_and_names_are_escaped(
    made: tuple[str, dict[str, Any]],
) -> None:
    page = _Page()
    page.feed(made[0])
    assert page.addresses == []
    assert not re.search(r"https?://|@import|url\(", made[0])
    assert "week <1>" not in made[0]
    assert "week &lt;1&gt;" in made[0]


def test_every_table_has_its_command(made: tuple[str, dict[str, Any]]) -> None:
    page = _Page()
    page.feed(made[0])
    assert len(page.commands) >= 6
    assert {unescape(command).partition(" --again")[0] for command in page.commands} == {
        "quadrant lab 'week <1>.csv'"
    }


def test_a_plot_has_a_line_for_each_variant_and_a_table(made: tuple[str, dict[str, Any]]) -> None:
    assert made[0].count("<polyline") == 3 * len(made[1]["compared"])
    assert made[0].count("The same as a table") == 3


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (7.3, [0, 2, 4, 6]),
        (59.0, [0, 10, 20, 30, 40, 50]),
        (12_345.0, [0, 5_000, 10_000]),
        (0.03, [0, 0.01, 0.02, 0.03]),
    ],
)
def test_ticks_of_a_plot_are_round(highest: float, expected: list[float]) -> None:
    assert ticks(highest) == pytest.approx(expected)


def test_definitions_are_prose_and_the_headings_of_a_table_differ(
    made: tuple[str, dict[str, Any]],
) -> None:
    assert "<code>gar.p50</code>" in made[0]
    assert "`" not in made[0]
    for head in re.findall(r"<thead>(.*?)</thead>", made[0]):
        names = re.findall(r">([^<]+)</th>", head)
        assert len(names) == len(set(names)) or "until about" in names
