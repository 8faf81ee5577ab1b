"""A history shows by itself whether it is as it was written."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import pytest

from coordinator.cluster.history.file import HistoryFile
from laboratory.checker.check import check, check_lines
from laboratory.checker.report.report import CheckReport
from laboratory.checker.report.rules import Rule
from tests.examples import examples
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.rich import rich_history


def _judged(lines: list[bytes]) -> CheckReport:
    return check_lines(lines, name="history")


def test_every_flipped_bit_is_noticed() -> None:
    lines = History(rich_history()).sealed()
    whole = b"".join(lines)
    draw = random.Random(1)
    for _ in range(examples(200)):
        at, bit = draw.randrange(len(whole) - 1), 1 << draw.randrange(8)
        flipped = bytearray(whole)
        flipped[at] ^= bit
        report = _judged([*BytesIO(flipped)])
        assert {v.rule for v in report.violations} >= {Rule.SEALED.label}, (at, bit)


@pytest.mark.parametrize("torn", [False, True])
def test_a_history_that_a_kill_cut_off_is_open_and_clean(torn: bool) -> None:
    lines = History(rich_history()).sealed()
    assert _judged(lines).ended
    for end in range(1, len(lines), 97):
        cut = [*lines[:end], lines[end][:-7]] if torn else lines[:end]
        report = _judged(cut)
        assert not report.ended
        assert report.torn == torn
        assert report.violations == ()


def test_a_file_that_is_written_on_after_a_kill_keeps_its_seals(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    for number in range(3):
        history = HistoryFile(path)
        history.acknowledged(1.0 + number, [])
        history.acknowledged(1.5 + number, [])
        history.close()
        with path.open("ab") as file:
            file.write(b'{"torn')
    HistoryFile(path).close()
    report = check(path)
    assert (report.events, report.torn, report.violations) == (6, False, ())


def test_lines_of_an_earlier_version_need_no_seals(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b'{"t":1.0,"src":"cluster","n":1,"ev":"acknowledged","jobs":[]}\n')
    history = HistoryFile(path)
    history.end(2.0)
    history.close()
    report = check(path)
    assert report.violations == ()
    assert {row.rule: row.checked for row in report.rows}[Rule.SEALED.label] == 1
