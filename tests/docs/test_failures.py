"""The tables of failures: each row names tests or commands that show it, and they are there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "failures.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
ROWS = [line for line in PAGE.read_text().splitlines() if re.match(r"\| (?!failure|what|-)", line)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_row_names_tests_that_are_there(row: str) -> None:
    named = TEST.findall(row)
    assert named, "no test shows this"
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text())
        there = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert function in there or (not function and any(n.startswith("test_") for n in there))


def test_no_failure_is_missing() -> None:
    """The table has a row for every failure in this list."""
    words = (
        *("killed", "stands still", "wakes", "slow", "standby", "two at once", "Ray head"),
        *("empty", "old copy", "full", "read-only", "cut", "refuses", "does not answer", "twice"),
        *("removed, cordoned or shrunk", "edited or deleted", "clock"),
    )
    rows = "\n".join(ROWS)
    assert [word for word in words if word not in rows] == []
