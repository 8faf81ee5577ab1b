"""The command, run in this process: exit code, stdout and stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from laboratory.cli.app import run


class CommandOutput(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of stdout, with single blanks between words."""
        return [" ".join(line.split()) for line in self.out.splitlines()]


Quadrant = Callable[..., CommandOutput]


@pytest.fixture
def quadrant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Quadrant:
    """Runs ``quadrant ARGUMENTS``; nothing of this machine's kubeconfig or terminal counts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def quadrant(*arguments: str, stdin: str = "") -> CommandOutput:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = run(list(arguments), "quadrant")
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return CommandOutput(code, out, err)

    return quadrant
