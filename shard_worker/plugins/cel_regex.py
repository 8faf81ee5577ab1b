"""Regular expressions of CEL's ``matches``, in time that grows with pattern times text.

A pattern becomes an automaton that is in several states at once, so that no pattern can make the
scheduler wait, as one with nested repetitions does in a matcher that goes back. There are
literals, ``.``, classes, ``\\d \\w \\s``, groups, ``|``, ``* + ? {m,n}``, ``^ $ \\b``; what RE2 has
beyond that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from shard_worker.plugins.cel_tree import CelError

LONGEST = 512
"""Characters of a pattern."""
MOST_STATES = 4000
MOST_REPEATS = 1000
WORK = 400_000
"""States that a search may look at."""

Test = Callable[[str], bool]
_CLASSES: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in "\t\n\f\r ",
}
_CHARACTERS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "a": "\a", "v": "\v"}
_BOUNDS = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}")


class Pattern:
    """States are numbers; from each one goes on for free, or with a character that passes."""

    def __init__(self, text: str) -> None:
        self.free: list[list[tuple[str, int]]] = []
        """State -> (condition: "" | ^ | $ | b | B, next state)."""
        self.step: list[tuple[Test, int] | None] = []
        first, last = _Reader(text, self).whole()
        self._first, self._last = first, last

    def state(self) -> int:
        if len(self.step) >= MOST_STATES:
            raise CelError("the pattern is too large")
        self.free.append([])
        self.step.append(None)
        return len(self.step) - 1

    def search(self, text: str) -> bool:
        """Does any part of the text match?"""
        now: set[int] = set()
        left = WORK
        for at in range(len(text) + 1):
            now.add(self._first)
            now = self._closure(now, text, at)
            if self._last in now:
                return True
            left -= len(now)
            if left < 0:
                raise CelError("the pattern takes too long")
            if at == len(text):
                return False
            steps = (self.step[state] for state in now)
            now = {step[1] for step in steps if step is not None and step[0](text[at])}
        return False

    def _closure(self, states: set[int], text: str, at: int) -> set[int]:
        found = set(states)
        waiting = list(states)
        while waiting:
            for condition, state in self.free[waiting.pop()]:
                if state not in found and _holds(condition, text, at):
                    found.add(state)
                    waiting.append(state)
        return found


def _holds(condition: str, text: str, at: int) -> bool:
    match condition:
        case "":
            return True
        case "^":
            return at == 0
        case "$":
            return at == len(text)
        case _:
            word = _CLASSES["w"]
            before = at > 0 and word(text[at - 1])
            after = at < len(text) and word(text[at])
            return (before != after) is (condition == "b")


Part = tuple[int, int]
"""First and last state."""


class _Reader:
    def __init__(self, text: str, into: Pattern) -> None:
        if len(text) > LONGEST:
            raise CelError(f"a pattern longer than {LONGEST} characters")
        self._text = text
        self._at = 0
        self._into = into
        self._depth = 0
        self._ignore_case = False
        self._dot_all = False

    def whole(self) -> Part:
        part = self._either()
        if self._at < len(self._text):
            raise CelError("the pattern has a bracket too many")
        return part

    def _peek(self, what: str) -> bool:
        return self._text.startswith(what, self._at)

    def _accept(self, what: str) -> bool:
        if self._peek(what):
            self._at += len(what)
            return True
        return False

    def _char(self) -> str:
        if self._at >= len(self._text):
            raise CelError("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _join(self, condition: str, left: int, right: int) -> None:
        self._into.free[left].append((condition, right))

    # --- structure ------------------------------------------------------------------------------

    def _either(self) -> Part:
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        first, last = self._into.state(), self._into.state()
        for start, end in parts:
            self._join("", first, start)
            self._join("", end, last)
        return first, last

    def _sequence(self) -> Part:
        first = last = self._into.state()
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            start, end = self._repeated()
            self._join("", last, start)
            last = end
        return first, last

    def _repeated(self) -> Part:
        begin = self._at
        part = self._one()
        low, high = self._bounds()
        if (low, high) == (1, 1):
            return part
        end = self._at
        copies = max(low, high, 1)
        parts = [part]
        while len(parts) < copies:
            self._at = begin
            parts.append(self._one())
        self._at = end
        return self._strung(parts, low, high)

    def _strung(self, parts: list[Part], low: int, high: int) -> Part:
        """The copies after each other, those beyond ``low`` left out if need be; high -1: and the
        last one again and again."""
        first, last = self._into.state(), self._into.state()
        here = first
        for i, (start, end) in enumerate(parts):
            self._join("", here, start)
            if i >= low:
                self._join("", here, last)
            here = end
        self._join("", here, last)
        if high < 0:
            self._join("", here, parts[-1][0])
        if high == 0:
            return first, first
        return first, last

    def _bounds(self) -> tuple[int, int]:
        low, high = 1, 1
        for mark, bounds in (("*", (0, -1)), ("+", (1, -1)), ("?", (0, 1))):
            if self._accept(mark):
                low, high = bounds
                break
        else:
            match = _BOUNDS.match(self._text, self._at)
            if match is None:
                return 1, 1
            self._at = match.end()
            low = int(match[1])
            high = low if not match[2] else -1 if match[3] is None else int(match[3])
            if max(low, high) > MOST_REPEATS or -1 < high < low:
                raise CelError("a repetition in the pattern is out of bounds")
        self._accept("?")
        if self._at < len(self._text) and self._text[self._at] in "*+?":
            raise CelError("a repetition of a repetition in the pattern; put it in brackets")
        return low, high

    # --- what is repeated -------------------------------------------------------------------------

    def _one(self) -> Part:
        char = self._char()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._stepped(self._set())
            case ".":
                return self._stepped((lambda _: True) if self._dot_all else (lambda c: c != "\n"))
            case "^" | "$":
                return self._condition(char)
            case "\\":
                return self._escaped()
            case "*" | "+" | "?":
                raise CelError("the pattern repeats nothing")
            case _:
                return self._stepped(self._literal(char))

    def _group(self) -> Part:
        self._depth += 1
        if self._depth > 32:
            raise CelError("the pattern is nested too deeply")
        before = self._ignore_case, self._dot_all
        if self._accept("?"):
            self._flags()
        part = self._either()
        if not self._accept(")"):
            raise CelError("the pattern lacks a closing bracket")
        self._ignore_case, self._dot_all = before
        self._depth -= 1
        return part

    def _flags(self) -> None:
        """``(?:``, ``(?i:``, ``(?P<name>``."""
        if self._accept("P<") or self._accept("<"):
            name = self._text[self._at :].partition(">")[0]
            if not name.isidentifier():
                raise CelError("a group of the pattern has no proper name")
            self._at += len(name) + 1
            return
        while not self._accept(":"):
            match self._char():
                case "i":
                    self._ignore_case = True
                case "s":
                    self._dot_all = True
                case _:
                    raise CelError("the pattern asks for what is not supported here")

    def _condition(self, condition: str) -> Part:
        first, last = self._into.state(), self._into.state()
        self._join(condition, first, last)
        return first, last

    def _stepped(self, test: Test) -> Part:
        first, last = self._into.state(), self._into.state()
        self._into.step[first] = (test, last)
        return first, last

    def _literal(self, char: str) -> Test:
        if self._ignore_case:
            return lambda c: c.casefold() == char.casefold()
        return lambda c: c == char

    def _escaped(self) -> Part:
        char = self._char()
        if char in "bB":
            return self._condition(char)
        if char in "Az":
            return self._condition("^" if char == "A" else "$")
        return self._stepped(self._escape(char))

    def _escape(self, char: str) -> Test:
        """A class, or a character that is written with a backslash."""
        if char.lower() in _CLASSES:
            test = _CLASSES[char.lower()]
            return test if char.islower() else lambda c: not test(c)
        if char in _CHARACTERS:
            return self._literal(_CHARACTERS[char])
        if char.isalnum():
            raise CelError(f"\\{char} in a pattern is not supported here")
        return self._literal(char)

    def _set(self) -> Test:
        """``[...]``; its bracket is open."""
        negated = self._accept("^")
        tests: list[Test] = []
        while not (self._peek("]") and tests):
            tests.append(self._range())
        self._at += 1
        found = tuple(tests)
        return lambda c: any(test(c) for test in found) is not negated

    def _range(self) -> Test:
        low = self._char()
        if low == "[" and self._peek(":"):
            raise CelError("classes such as [:alpha:] are not supported in patterns here")
        if low == "\\":
            escaped = self._char()
            if escaped.lower() in _CLASSES:
                return self._escape(escaped)
            self._escape(escaped)
            low = _CHARACTERS.get(escaped, escaped)
        if not (self._peek("-") and self._text[self._at + 1 : self._at + 2] not in ("]", "")):
            return self._literal(low)
        self._at += 1
        high = self._char()
        if high == "\\":
            high = self._char()
            high = _CHARACTERS.get(high, high)
        if high < low:
            raise CelError("a range in the pattern ends before it begins")
        if self._ignore_case:
            return lambda c: low <= c.lower() <= high or low <= c.upper() <= high
        return lambda c: low <= c <= high


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Raises CelError where the text is no pattern that is supported here."""
    return Pattern(text)
