"""Is this machine able to run it? Each check reports what it found and, where it fails, the remedy.

A check is a function of the :class:`DoctorPlace`; it returns what it found, or raises
:class:`Failed` or :class:`DoctorWarning`. Each runs in a thread of its own with a time limit, so
that a check that hangs (a dead file system, say) is reported like any other failure and delays no
other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.settings.settings import Settings


class DoctorVerdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class CheckEnded(Exception):
    """Raised by a check that does not pass, with its finding and the remedy."""

    verdict = DoctorVerdict.FAIL

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(finding)
        self.found = finding
        self.remedy = remedy


class Failed(CheckEnded):
    """The check failed: Quadrant does not run here, or does not keep its promises."""


class DoctorWarning(CheckEnded):
    """A warning: Quadrant runs here, but not as well as it could."""

    verdict = DoctorVerdict.WARN


class Skipped(CheckEnded):
    """The check does not apply here; ``remedy`` is empty."""

    verdict = DoctorVerdict.SKIPPED

    def __init__(self, finding: str) -> None:
        super().__init__(finding, "")


@dataclass(frozen=True, slots=True)
class DoctorPlace:
    """Input of doctor's checks. ``settings`` is None if they are invalid, which a check of its own
    reports."""

    settings: Settings | None
    wrong: str = ""
    """Why there are no settings."""

    def need(self) -> Settings:
        if self.settings is None:
            raise Skipped("needs valid settings")
        return self.settings


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    name: str
    run: Callable[[DoctorPlace], str]
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    check: str
    verdict: DoctorVerdict
    found: str
    remedy: str
    seconds: float

    def as_json(self) -> dict[str, str | float]:
        return {
            "name": self.check,
            "verdict": self.verdict.value,
            "found": self.found,
            "remedy": self.remedy,
            "seconds": round(self.seconds, 3),
        }


def examine(checks: Sequence[DoctorCheck], place: DoctorPlace) -> list[DoctorFinding]:
    """Run all checks side by side; findings in the order of the checks."""
    started = [_Running(check, place) for check in checks]
    return [running.finding() for running in started]


class _Running:
    def __init__(self, check: DoctorCheck, place: DoctorPlace) -> None:
        self._check = check
        self._place = place
        self._result: DoctorFinding | None = None
        self._started = time.monotonic()
        # A daemon: a check that hangs must not keep the command from ending.
        self._thread = threading.Thread(target=self._run, name=check.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            verdict, text, remedy = DoctorVerdict.OK, self._check.run(self._place), ""
        except CheckEnded as ended:
            verdict, text, remedy = ended.verdict, ended.found, ended.remedy
        except Exception as error:  # a check that fails itself is a finding, not a traceback
            verdict, text = DoctorVerdict.FAIL, f"{type(error).__name__}: {error}"
            remedy = "follow the message; if it does not help, report it with this output"
        self._result = self._finding(verdict, text, remedy)

    def finding(self) -> DoctorFinding:
        seconds_left = self._started + self._check.seconds - time.monotonic()
        self._thread.join(max(0.0, seconds_left))
        return self._result or self._finding(
            DoctorVerdict.FAIL,
            f"no answer within {self._check.seconds:g} s",
            "look for a busy machine, a hanging file system or a dead server, then try again",
        )

    def _finding(self, verdict: DoctorVerdict, text: str, remedy: str) -> DoctorFinding:
        took = time.monotonic() - self._started
        return DoctorFinding(self._check.name, verdict, text, remedy, took)
