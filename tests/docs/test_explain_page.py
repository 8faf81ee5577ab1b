"""The page on explain and plan says what the code does."""

from __future__ import annotations

import inspect
import re

from coordinator.cli.scheduling import explain_text
from coordinator.cli.scheduling.plan import EXITS
from coordinator.explain.hypothetical_turns import TAIL
from coordinator.explain.planner import JOBS
from shared.messages.reason import Reason
from tests.deploy.rendered import ROOT

PAGE = (ROOT / "docs/explain.md").read_text()


def test_every_reason_is_told_in_its_order() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE)
    assert [word for word in rows if word in set(Reason)] == [reason.value for reason in Reason]


def test_every_reason_has_a_remedy() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \|([^|]+)\|([^|]+)\|$", PAGE, re.MULTILINE)
    reports = {word: (means.strip(), remedy.strip()) for word, means, remedy in rows}
    assert set(reports) == {reason.value for reason in Reason}
    assert all(means and remedy for means, remedy in reports.values())


def test_every_line_of_an_explanation_is_told() -> None:
    source = inspect.getsource(explain_text.explanation)
    lines = re.findall(r'^ {8}\("([A-Z]+)", ', source, re.MULTILINE)
    first = re.findall(r"^\| ((?:`[A-Z]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    matches = re.findall(r"[A-Z]+", " ".join(first))
    assert len(lines) > 10
    assert set(matches) == {"JOB", *lines}


def test_exit_codes_and_bounds() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert sorted(codes) == sorted({*EXITS.values(), 1})
    text = PAGE.replace("\n", " ")
    assert f"looks at {JOBS} jobs at most and at {TAIL:,} elastic tasks" in text
