"""Mutations of the file itself: of lines as they were written, with their seals (promise 6)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.mutations.table import breaks


@breaks(Rule.SEALED, numbers=True)
def a_history_is_empty(history: History) -> None:
    history.lines = []


@breaks(Rule.SEALED, numbers=True)
def a_bit_of_a_digit_flips(history: History) -> None:
    lines = history.sealed()
    at = next(i for i, line in enumerate(lines) if b'"ev":"start"' in line)
    lines[at] = lines[at].replace(b'"n":', b'"n":1', 1)
    history.lines = lines


@breaks(Rule.SEALED, numbers=True)
def a_bit_flips_and_a_line_is_no_json_any_more(history: History) -> None:
    lines = history.sealed()
    lines[40] = lines[40].replace(b'"', b"#", 1)
    history.lines = lines


@breaks(Rule.SEALED, numbers=True)
def a_line_loses_its_seal(history: History) -> None:
    lines = history.sealed()
    lines[-1] = lines[-1].partition(b',"seal"')[0] + b"}\n"
    history.lines = lines


@breaks(Rule.SEALED, numbers=True)
def the_first_lines_are_missing(history: History) -> None:
    history.lines = history.sealed()[3:]


@breaks(Rule.SEALED, numbers=True)
def two_lines_change_places(history: History) -> None:
    lines = history.sealed()
    lines[5], lines[6] = lines[6], lines[5]
    history.lines = lines
