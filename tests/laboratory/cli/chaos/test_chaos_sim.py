"""``quadrant chaos sim`` while it runs, and when it is interrupted."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from coordinator.supervisor.child_process import descendants
from tests.coordinator.cli.interrupting import left_of

SEED_BY_SEED = """
from laboratory.scenarios import campaign
from laboratory.cli.app import main

campaign.SEEDS_AT_ONCE = 1
main()
"""
"""The command, whose processes tell of each seed: else the first is told when ten are finished."""


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.all), "2"])
def test_an_interrupted_run_ends_its_processes_and_lists_the_clean_seeds(
    jobs: str,
) -> None:
    """On a terminal a bar shows how far it is; Ctrl-C goes to all processes of the terminal."""
    ours, theirs = pty.openpty()
    command = ["chaos", "sim", "--seeds", "0..999", "--jobs", jobs]
    process = subprocess.Popen(
        [sys.executable, "-c", SEED_BY_SEED, *command],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        text = ""
        while re.search(r"[1-9]\d*/1000", text) is None:
            text += os.read(ours, 4096).decode()
        children = descendants(process.pid)
        assert len(children) >= (2 if jobs == "2" else 0)
        os.killpg(process.pid, signal.SIGINT)
        text = _rest(ours)
        # Both are 130 to a shell. Python ends by the signal, although it was handled, where it came
        # while the text of a class was executed (dataclasses of a module that is imported late).
        assert process.wait(timeout=60) in (130, -signal.SIGINT), text
        assert left_of(children) == []
    finally:
        if process.poll() is None:
            process.kill()
        os.close(ours)
    assert re.search(r"interrupted: seeds 0\.\.\d+ are finished, all clean", text)
    assert "Traceback" not in text


def _rest(terminal: int) -> str:
    """Until the other end is closed."""
    text = b""
    while True:
        try:
            some = os.read(terminal, 4096)
        except OSError:  # what Linux says in the place of an end
            return text.decode()
        if not some:
            return text.decode()
        text += some
