"""Is this machine able to run it? Each check says what it found and, where it fails, the remedy.

A check is a function of the :class:`Place`; it returns what it found, or raises :class:`Failed` or
:class:`Doubt`. Each runs in a thread of its own with a time limit, so that one that hangs (a dead
file system, say) is told like any other failure and keeps no other waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.settings import Settings


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Told(Exception):
    """What a check found wrong, and what to do about it."""

    verdict = Verdict.FAIL

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy


class Failed(Told):
    """It will not run, or not keep what it promises."""


class Doubt(Told):
    """It will run, but not as well as it could."""

    verdict = Verdict.WARN


class Skipped(Told):
    """Not asked for here; ``remedy`` is empty."""

    verdict = Verdict.SKIPPED

    def __init__(self, found: str) -> None:
        super().__init__(found, "")


@dataclass(frozen=True, slots=True)
class Place:
    """What is checked. ``settings`` is None where they are wrong, which is a finding of its own."""

    settings: Settings | None
    wrong: str = ""
    """Why there are no settings."""

    def need(self) -> Settings:
        if self.settings is None:
            raise Skipped("needs valid settings")
        return self.settings


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    run: Callable[[Place], str]
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
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


def examine(checks: Sequence[Check], place: Place) -> list[Finding]:
    """Run all checks side by side; findings in the order of the checks."""
    started = [_Running(check, place) for check in checks]
    return [one.finding() for one in started]


class _Running:
    def __init__(self, check: Check, place: Place) -> None:
        self._check = check
        self._place = place
        self._result: Finding | None = None
        self._started = time.monotonic()
        # A daemon: a check that hangs must not keep the command from ending.
        self._thread = threading.Thread(target=self._run, name=check.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            verdict, found, remedy = Verdict.OK, self._check.run(self._place), ""
        except Told as told:
            verdict, found, remedy = told.verdict, told.found, told.remedy
        except Exception as error:  # a check that fails itself is a finding, not a traceback
            verdict, found = Verdict.FAIL, f"{type(error).__name__}: {error}"
            remedy = "see what is said; if it tells nothing, report it with this output"
        self._result = self._finding(verdict, found, remedy)

    def finding(self) -> Finding:
        left = self._started + self._check.seconds - time.monotonic()
        self._thread.join(max(0.0, left))
        return self._result or self._finding(
            Verdict.FAIL,
            f"no answer within {self._check.seconds:g} s",
            "look for a busy machine, a hanging file system or a dead server, then try again",
        )

    def _finding(self, verdict: Verdict, found: str, remedy: str) -> Finding:
        took = time.monotonic() - self._started
        return Finding(self._check.name, verdict, found, remedy, took)
