"""How a mistake in an input is reported: which object, which field, what is wrong, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST_WORD = 64

SHOWN = 80
"""Characters of a wrong value that an answer repeats."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One more thing that is wrong with a refused object."""

    field: str
    value: str
    message: str

    def __str__(self) -> str:
        got = f" (got {self.value})" if self.value else ""
        return f"{self.field}{got}: {self.message}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One object that was refused, and why. Nothing of it was stored.

    ``field`` is the path from the top of the object (``spec.tasks[0].replicas``), "" for the whole.
    ``value`` is the value found there, shortened; ``message`` ends with the remedy.
    """

    kind: str
    name: str
    field: str
    value: str
    message: str
    reason: str = "Invalid"
    """Kubernetes' word: Invalid, NotFound, AlreadyExists (its name is taken by an object that is
    being deleted) or Conflict (others still need it)."""
    more: tuple[Mistake, ...] = ()
    """Its other mistakes, so that one attempt reports all."""

    def __str__(self) -> str:
        at = f": {self.field}" if self.field else ""
        got = f" (got {self.value})" if self.value else ""
        more = "".join(f"; {mistake}" for mistake in self.more)
        return f"{self.kind} {self.name}{at}{got}: {self.message}{more}"


class InvalidInput(Exception):
    """Raised where a field is read, turned into a :class:`Refusal` where the object is known."""

    def __init__(
        self,
        field: str,
        value: object,
        message: str,
        *,
        reason: str = "Invalid",
        more: tuple[Mistake, ...] = (),
    ) -> None:
        """``more``: what was found wrong beside it."""
        super().__init__(f"{field}: {message}")
        self.field = field
        self.value = value
        self.message = message
        self.reason = reason
        self.more = more

    def refusal(self, kind: str, name: str, more: tuple[Mistake, ...] = ()) -> Refusal:
        value, more = shown(self.value), self.more + more
        return Refusal(kind, name, self.field, value, self.message, self.reason, more)


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """``did you mean X? `` where one of the words is near; else ""."""
    near = nearest(word, words) if isinstance(word, str) else ""
    return f"did you mean {near}? " if near else ""


def nearest(word: str, words: Iterable[str]) -> str:
    """The word of a list that somebody meant who wrote another one; "" where none is near."""
    if len(word) > _LONGEST_WORD:
        return ""
    by_small = {name.lower(): name for name in words}
    near = difflib.get_close_matches(word.lower(), by_small, n=1, cutoff=0.7)
    return by_small[near[0]] if near else ""


def not_in_this_version(field: str, value: object, instead: str = "leave it out") -> InvalidInput:
    """The error for a field that is understood but not implemented: dropping it silently would
    change what was asked for."""
    return InvalidInput(field, value, f"not in this version; {instead}")


def shown(value: object) -> str:
    """A wrong value as an answer may repeat it: one line, bounded; of containers only the size."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "list"
        return f"{kind} of {len(value)}"
    if isinstance(value, int) and not -(10**SHOWN) < value < 10**SHOWN:
        return "a number of many digits"
    text = repr(value if not isinstance(value, str) else value[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def first_of(group: BaseExceptionGroup[BaseException]) -> str:
    """The message of a group's first error, through nested groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
