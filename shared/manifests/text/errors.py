"""What a text may cost, and how a mistake in it is told."""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Bounds of one text. Each is checked before the memory it bounds is used."""

    size: int = 16 << 20
    """Bytes; what aliases of YAML repeat may add as much again."""
    depth: int = 64
    """Objects and lists inside one another."""
    objects: int = 20_000
    values: int = 2_000_000
    """Keys, texts, numbers, objects and lists of a YAML text, each repetition counted."""


LIMITS = TextLimits()


class TextError(InvalidInput):
    """A text that is not taken. ``line`` and ``column`` count from 1; 0 where no place is known."""

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
