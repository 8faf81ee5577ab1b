"""Namespaces that a killed run left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.machines.machine import possible, remove_leftovers

pytestmark = pytest.mark.skipif(not possible(), reason="network namespaces need root and iproute2")


@pytest.fixture
def dead_and_living() -> Iterator[tuple[str, str]]:
    """Namespaces named after a process that ended, and after this one."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(10)
    names = (f"quadrant-{ended.pid}-9", f"quadrant-{os.getpid()}-9")
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_only_namespaces_of_ended_runs_are_removed(dead_and_living: tuple[str, str]) -> None:
    dead, living = dead_and_living
    remove_leftovers()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert living in listed.stdout
    assert dead not in listed.stdout
