"""A timeline of faults, deaths, restarts and recoveries, for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ChaosTimeline:
    """Shows seconds since :meth:`begin`; lines before that are only shown when they happen."""

    show: Callable[[str], None]
    """Called with every new line."""
    _began: float = field(default_factory=time.time)
    """Seconds since 1970."""
    _lines: list[tuple[float, str]] = field(default_factory=list)

    def begin(self) -> None:
        self._began = time.time()
        self._lines.clear()

    def note(self, text: str) -> float:
        """Add a line for now; returns the time, since 1970."""
        now = time.time()
        self._lines.append((now, text))
        self.show(self._line(now, text))
        return now

    def insert(self, moment: float, text: str) -> None:
        """Add a line for an earlier moment (since 1970)."""
        self._lines.append((moment, text))

    def in_order(self) -> list[str]:
        return [self._line(moment, text) for moment, text in sorted(self._lines)]

    def _line(self, moment: float, text: str) -> str:
        return f"{moment - self._began:6.1f} s  {text}"
