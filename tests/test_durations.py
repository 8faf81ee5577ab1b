"""Durations are recorded by test, summed by folder, and held against the committed budget."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.durations import (
    Duration,
    budgets,
    by_folder,
    comparison,
    read,
    table,
)

SOME = [
    Duration(2.0, 3.0, "tests/shared/ledger/redis/test_a.py::test_x[1 2]"),
    Duration(1.0, 9.0, "tests/shared/ledger/test_b.py::test_y"),
    Duration(4.0, 5.0, "tests/docs/test_c.py::test_z"),
    Duration(0.5, 0.5, "tests/test_d.py::test_w"),
]


def test_a_run_records_each_test(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "tests/shared/telemetry/test_relay.py"],
        cwd=ROOT,
        env=os.environ | {"DURATIONS": str(recorded)},
        check=True,
        capture_output=True,
        timeout=110,
    )
    durations = read(recorded.read_text())
    assert durations
    assert by_folder(durations).keys() == {"shared/telemetry"}
    assert all(0 <= duration.processor < 60 for duration in durations)


def test_folders_are_summed_two_levels_deep() -> None:
    assert by_folder(SOME) == {"docs": 4.0, "shared/ledger": 3.0, ".": 0.5}


def test_the_table_is_the_budget_of_each_folder() -> None:
    text = table(SOME)
    assert budgets(text) == {"docs": 4.0, "shared/ledger": 3.0, ".": 0.5, "all": 7.5}
    slowest = [line.split()[-1] for line in text.splitlines() if "::" in line]
    assert slowest[0] == SOME[2].test


def test_the_budget_stands_beside_the_measured_time() -> None:
    lines = comparison(SOME, {"docs": 1.5, "all": 20.0}).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["4.0", "1.5", "docs"],
        ["3.0", "-", "shared/ledger"],
        ["0.5", "-", "."],
        ["7.5", "20.0", "all"],
    ]
