"""The limits of a text, and the error for one that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of one text. Each is checked before the memory that it bounds is allocated."""

    size: int = 16 << 20
    """Maximum bytes; YAML aliases may add as much again by repetition."""
    depth: int = 64
    """Maximum nesting of objects and lists."""
    objects: int = 20_000
    values: int = 2_000_000
    """Maximum number of keys, strings, numbers, objects and lists of a YAML text, with
    repetitions."""


LIMITS = TextLimits()


class TextError(InvalidInput):
    """A text that cannot be read. ``line`` and ``column`` count from 1; 0 if the position is
    unknown."""

    def __init__(
        self, message: str, *, field: str = "", value: object = None, line: int = 0, column: int = 0
    ) -> None:
        super().__init__(field, value, message)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        at = [f"line {self.line}"] if self.line else []
        at += [f"column {self.column}"] if self.column else []
        where = [", ".join(at)] if at else []
        return ": ".join([*where, *([self.field] if self.field else []), self.message])


def child_path(at: str, part: str | int) -> str:
    """The path of a field or an item below ``at``."""
    if isinstance(part, int):
        return f"{at}[{part}]"
    return f"{at}.{part}" if at else part
