"""Nothing is wider than the terminal where a person reads it, and nothing is broken where a program
does."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import Any

import pytest

from coordinator.cli.objects.description import describe
from coordinator.cli.output import terminal
from coordinator.cli.output.printing import TextColumns
from coordinator.cli.run.up import _next_steps
from laboratory.cli.catalogue import ENTRIES
from shared.settings.settings import load_settings
from tests.coordinator.cli.conftest import Quadrant

LONG = "Fragmented: 4 cpu, 16 nvidia.com/gpu are free in total, but not where role worker fits"
EXAMPLE = re.compile("quadrant |source |cat |kubectl ")
NAME = "pod/train-2-with-a-rather-long-name-as-people-have-them-worker-0"


def _lines(rows: list[list[str]], width: int | None) -> list[str]:
    text: list[str] = []
    TextColumns(("AGE", "OBJECT", "MESSAGE"), out=text.append, width=width).rows(rows)
    return "".join(text).splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", ["pod/a", NAME])
def test_a_long_last_cell_is_wrapped(name: str, width: int) -> None:
    lines = _lines([["4s", name, LONG], ["5s", "b", "short"], ["6s", "c", ""]], width)
    room = max(width, len(f"4s    {name}"))
    assert max(map(len, lines)) <= room
    words = "\n".join(lines).split()
    assert [word for word in words if word in LONG.split()] == LONG.split()
    assert lines[0].startswith("AGE   OBJECT")
    below = width - len(name) - 9 < 30
    assert any(line.endswith(name) for line in lines) is below
    assert words.count("<none>") == (not below)


def test_a_row_is_one_line_where_nobody_watches() -> None:
    assert len(_lines([["4s", NAME, LONG]], None)) == 2


def test_describe_wraps_sentences_alone() -> None:
    reports = {"type": "Unschedulable", "status": "True", "reason": "X", "message": LONG}
    value: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"image": "x" * 90},
        "status": {"state": {"message": LONG}, "conditions": [reports]},
    }
    plain = describe(value, [], 0.0).splitlines()
    lines = describe(value, [], 0.0, width=80).splitlines()
    assert max(len(line) for line in lines if "xxx" not in line) <= 80
    assert any("x" * 90 in line for line in lines)
    assert "\n".join(lines).split() == "\n".join(plain).split()
    reason = next(at for at, line in enumerate(lines) if line.startswith("Reason:"))
    assert lines[reason + 1].startswith(" " * 10)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_help_flows(quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch, entry: Any) -> None:
    """No line of a paragraph ends early, no switch looks as if it took a value, every option is
    explained."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    result = quadrant(entry.name, "--help")
    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "<bool>" not in result.out
    assert "…" not in result.out
    text = [line.strip() for line in lines[: next(i for i, n in enumerate(lines) if "╭" in n)]]
    for line, after in pairwise(text):
        if line and after and not EXAMPLE.match(line):
            assert len(line) + 1 + len(after.split()[0]) > 76, (line, after)
    for param in entry.load().params:
        assert param.help, param.name


@pytest.mark.parametrize("tokens", [False, True])
def test_the_next_steps_of_up_fit_in_80_columns(
    quadrant: Quadrant, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, tokens: bool
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/quadrant"])
    monkeypatch.setenv("PATH", "/nowhere")
    settings = load_settings(tokens_file=tmp_path / "tokens" if tokens else None)
    lines = _next_steps(settings, has_token=False)
    assert max(map(len, lines)) <= 80
    assert any(".venv/bin/quadrant" in line for line in lines)
    assert any("kubectl sends no token" in line for line in lines) is tokens
    assert any("kubectl get" in line for line in lines) is not tokens


def test_the_command_is_named_as_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/quadrant"])
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert terminal.hint_to_path() == ""
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "/opt/quadrant" in terminal.hint_to_path()
