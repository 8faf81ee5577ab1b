"""Durations of the tests: processor time and time by the clock of each, summed by folder.

With ``DURATIONS=FILE`` in the environment each test that ends adds a line to the file. ``make
durations`` writes ``durations.txt`` of such a file: the sum of each folder and the slowest tests.
``python -m tests.durations FILE`` prints what each folder took beside the sum that is committed,
its budget. Processor time counts: the clock depends on what else runs on the machine.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMITTED = Path(__file__).with_name("durations.txt")
SLOWEST = 200
TARGET = os.environ.pop("DURATIONS", None)
"""The file; taken away, so that the workers of this run and what tests start record nothing."""
_PROPERTY = "durations"


@dataclass(frozen=True, slots=True)
class Duration:
    processor: float
    """Seconds of this process, and of the processes that it started and waited for."""
    clock: float
    """Seconds."""
    test: str

    @property
    def folder(self) -> str:
        """Two levels below ``tests``."""
        folders = self.test.partition("::")[0].split("/")[1:-1]
        return "/".join(folders[:2]) or "."

    def __str__(self) -> str:
        return f"{self.processor:9.2f} {self.clock:9.2f}  {self.test}"


def _now() -> tuple[float, float]:
    return sum(os.times()[:4]), time.perf_counter()


# --- recording, as a plugin of pytest -------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    _begun[nodeid] = _now()


_begun: dict[str, tuple[float, float]] = {}
"""Test -> when it began: the one that runs."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if begin := _begun.pop(item.nodeid, None):
        took = [now - before for now, before in zip(_now(), begin, strict=True)]
        item.user_properties.append((_PROPERTY, took))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if TARGET is None or report.when != "teardown":
        return
    with Path(TARGET).open("a") as out:
        for name, took in report.user_properties:
            if name == _PROPERTY and isinstance(took, list):
                print(*took, report.nodeid, sep="\t", file=out)


# --- the table ------------------------------------------------------------------------------------


def read(text: str) -> list[Duration]:
    """Read the lines that a run has recorded."""
    lines = [line.split("\t", 2) for line in text.splitlines()]
    return [Duration(float(processor), float(clock), test) for processor, clock, test in lines]


def by_folder(durations: Iterable[Duration]) -> dict[str, float]:
    """Processor seconds of each folder, the largest first."""
    sums: dict[str, float] = defaultdict(float)
    for duration in durations:
        sums[duration.folder] += duration.processor
    return dict(sorted(sums.items(), key=lambda folder: -folder[1]))


def table(durations: Iterable[Duration]) -> str:
    """The committed file: the folders' sums, then the slowest tests."""
    durations = sorted(durations, key=lambda duration: -duration.processor)
    sums = by_folder(durations)
    begin = f"Processor seconds of {len(durations):,} tests by folder"
    lines = [f"{begin} (`make durations` writes this file)", ""]
    lines += [f"{seconds:9.1f}  {folder}" for folder, seconds in sums.items()]
    lines += [f"{sum(sums.values()):9.1f}  all", ""]
    lines += [f"The slowest {SLOWEST} tests: processor seconds, seconds by the clock", ""]
    lines += map(str, durations[:SLOWEST])
    return "\n".join(lines) + "\n"


def budgets(text: str) -> dict[str, float]:
    """Folder -> processor seconds, of the committed file."""
    part = text.split("\n\n")[1]
    return {folder: float(seconds) for seconds, folder in map(str.split, part.splitlines())}


def comparison(durations: Iterable[Duration], budget: dict[str, float]) -> str:
    """Seconds of each folder beside its budget."""
    sums = by_folder(durations)
    took = sums | {"all": sum(sums.values())}
    lines = [f"{'took':>9} {'budget':>9}  processor seconds by folder"]
    for folder, seconds in took.items():
        allowed = f"{budget[folder]:.1f}" if folder in budget else "-"
        lines.append(f"{seconds:9.1f} {allowed:>9}  {folder}")
    return "\n".join(lines)


def main(recorded: Path, *, write: bool) -> None:
    durations = read(recorded.read_text())
    if write:
        COMMITTED.write_text(table(durations))
    budget = budgets(COMMITTED.read_text()) if COMMITTED.exists() else {}
    print(comparison(durations, budget))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[-1]), write="--write" in sys.argv)
