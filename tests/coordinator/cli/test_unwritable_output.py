"""Output that cannot be written: a reader that left, a full disk, a closed stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import first_of

COMMAND = f"{sys.executable} -m laboratory.cli"
PLAIN, DRAWN, SHELL = "version", "config show", "completion bash"


def _shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", first_of(["demo -h", "--help", "config show --help"]))
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_help_ends_with_0_where_its_reader_leaves(arguments: str, reader: str) -> None:
    result = _shell(f"{COMMAND} {arguments} | {reader}")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [PLAIN, DRAWN, SHELL])
def test_no_other_command_ends_with_0_where_its_reader_leaves(arguments: str) -> None:
    result = _shell(f"{COMMAND} {arguments} | true")
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("arguments", ["--help", PLAIN, DRAWN, SHELL])
def test_full_disk_is_one_sentence(arguments: str) -> None:
    result = _shell(f"{COMMAND} {arguments} > /dev/full")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("Error: cannot write: No space left on device; make room")


@pytest.mark.parametrize(("arguments", "code"), [("--help", 0), (PLAIN, 0), ("get", 2)])
def test_closed_output_is_no_error(arguments: str, code: int) -> None:
    result = _shell(f"{COMMAND} {arguments} >&-")
    assert (result.returncode, "Traceback" in result.stderr) == (code, False)


def test_demo_says_something_before_it_imports_anything_large(tmp_path: Path) -> None:
    """The import hook ends the process at NumPy, which the run itself cannot do without."""
    hook = "import sys; sys.modules['numpy'] = None"
    (tmp_path / "sitecustomize.py").write_text(hook)
    result = _shell(f"PYTHONPATH={tmp_path} {COMMAND} demo --jobs 1")
    assert result.stderr.splitlines()[0].startswith("Quadrant's demo: ")
    assert "numpy" in result.stderr
