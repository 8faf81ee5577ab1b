"""What happened when, for people: blows, deaths, returns, recoveries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timeline:
    """Times are seconds after :meth:`begin`; before it they are below 0."""

    show: Callable[[str], None]
    """Is given every line as it comes."""
    began: float = field(default_factory=time.time)
    """Seconds since 1970."""
    lines: list[tuple[float, str]] = field(default_factory=list)

    def begin(self) -> None:
        self.began = time.time()

    def note(self, text: str) -> float:
        """Write down what happens now; returns when, since 1970."""
        now = time.time()
        self.lines.append((now - self.began, text))
        self.show(f"{now - self.began:6.1f} s  {text}")
        return now

    def insert(self, moment: float, text: str) -> None:
        """Write down what is found out later. ``moment``: since 1970."""
        self.lines.append((moment - self.began, text))

    def in_order(self) -> list[str]:
        return [f"{at:6.1f} s  {text}" for at, text in sorted(self.lines)]
