"""Where the scripts check something, found in their text, and the scripts with one check removed.

A check is a condition behind which something is refused: a verdict, an error, an answer that says
no. Each part of it (between ``or``) is taken away by itself. Where something is accepted behind a
condition, the condition is taken for met. Of the table of state changes each entry is taken away,
and each that is not there is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from shared.ledger.redis.calls import SCRIPTS

_NOT_REFUSING = r"(?!COMMITTED|RECHECKED)"
_REFUSES = re.compile(
    r"\breject\(|\baltered\(|\brefusal\(|\breturn refuse\("
    rf"|\breturn {_NOT_REFUSING}[A-Z][A-Z_]+\b|\bverdict(, at)? = {_NOT_REFUSING}[A-Z][A-Z_]+\b"
    r"|\breturn (verdict|early|false|above|group|over|found|broken)\b|\bover = over or\b"
    r"|\breturn k - 1\b|\breturn \{[1-9]|\breturn 0 end|\breturn nil end"
    r"|\breturn end|\breturn reply\("
)
_ACCEPTS = re.compile(r"\breturn (true|accept\(|COMMITTED, -1|rec\b) ?.*\bend$")
_DECIDES = re.compile(r"^\s*return (?P<found>[^{(,]*(?:==|<=|>=| and not ).*)$")
_MEETS = re.compile(r"then return (?P<found>value .*?) end$")
_IF = re.compile(r"\b(?:else)?if (?P<condition>.*?) then\b")
_STATES = ("0", "BINDING", "BOUND", "RUNNING", "RELEASING_STATE", "SUCCEEDED", "FAILED", "LOST")


@dataclass(frozen=True, slots=True)
class Mutant:
    part: str
    """Name of the file, without its ending."""
    line: int
    """Counted from 1."""
    name: str
    """The removed text, the same as long as the script says the same."""
    text: str
    """The file without it."""

    def __str__(self) -> str:
        return f"{self.part}.lua:{self.line} {self.name}"


def mutants() -> list[Mutant]:
    """Every script file with each of its checks removed in turn."""
    results: list[Mutant] = []
    for path in sorted(SCRIPTS.glob("*.lua")):
        lines = path.read_text().splitlines()
        results += _of_file(path.stem, lines)
    return _numbered(results)


def _numbered(mutants: list[Mutant]) -> list[Mutant]:
    """Equal names of one file are told apart by a number."""
    named: list[Mutant] = []
    mutants = sorted(mutants, key=lambda m: (m.part, m.name, m.line))
    for _, same in groupby(mutants, key=lambda m: (m.part, m.name)):
        for number, m in enumerate(same, 1):
            name = m.name if number == 1 else f"{m.name} #{number}"
            named.append(Mutant(m.part, m.line, name, m.text))
    return sorted(named, key=lambda m: (m.part, m.line))


def _of_file(part: str, lines: list[str]) -> Iterator[Mutant]:
    observed: set[int] = set()
    for at, line in enumerate(lines):
        if line.lstrip().startswith("--"):
            continue
        for pattern, value in ((_REFUSES, "false"), (_ACCEPTS, "true")):
            if not pattern.search(line) or "function" in line:
                continue
            header = _header(lines, at)
            if header is not None and header not in observed:
                observed.add(header)
                yield from _without_condition(part, lines, header, value)
        for pattern in (_DECIDES, _MEETS):
            match = pattern.search(line)
            if match and "function" not in line:
                start, end = match.span("found")
                for span in _parts(line, start, end, " and "):
                    yield _mutant(part, lines, at, span, "true")
    yield from _state_changes(part, lines)


def _header(lines: list[str], at: int) -> int | None:
    """The line of the condition under which this line is reached; None where it always is."""
    if _IF.search(lines[at]):
        return at
    depth = _indent(lines[at])
    for k in range(at - 1, -1, -1):
        if lines[k].strip() and _indent(lines[k]) < depth:
            if _IF.search(lines[k]):
                return k
            if re.search(r"\bfunction\b|^end", lines[k]):
                return None
            depth = _indent(lines[k])  # of an else, a loop or a block: what is around it
            if lines[k].strip() == "else":
                depth += 1
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_condition(part: str, lines: list[str], at: int, value: str) -> Iterator[Mutant]:
    match = _IF.search(lines[at])
    assert match is not None
    start, end = match.span("condition")
    word = " or " if value == "false" else " and "
    for part_span in _all_parts(lines[at], start, end, word):
        yield _mutant(part, lines, at, part_span, value)


def _all_parts(line: str, start: int, end: int, word: str) -> Iterator[tuple[int, int]]:
    """The parts between a word, also in brackets inside of them."""
    for a, b in _parts(line, start, end, word):
        yield a, b
        for c, d in _parts(line, a, b, " and "):
            if line[c] == "(" and line[d - 1] == ")":
                inner = list(_all_parts(line, c + 1, d - 1, word))
                yield from inner if len(inner) > 1 else ()


def _parts(line: str, start: int, end: int, word: str) -> list[tuple[int, int]]:
    result, depth, first = [], 0, start
    for k in range(start, end):
        depth += (line[k] in "([{") - (line[k] in ")]}")
        if depth == 0 and line.startswith(word, k) and k + len(word) <= end:
            result.append((first, k))
            first = k + len(word)
    return [*result, (first, end)]


def _mutant(part: str, lines: list[str], at: int, span: tuple[int, int], value: str) -> Mutant:
    start, end = span
    old = lines[at]
    changed = [*lines]
    changed[at] = f"{old[:start]}{value}{old[end:]}"
    text = "\n".join(changed) + "\n"
    return Mutant(part, at + 1, f"{old[start:end]} -> {value}", text)


def _state_changes(part: str, lines: list[str]) -> Iterator[Mutant]:
    """Mutate the table ``allowed[target][current]``."""
    text = "\n".join(lines) + "\n"
    if "local allowed" not in text:
        return
    ends = ("FAILED", "LOST")
    last = "".join(f"allowed[{end}] = allowed[SUCCEEDED]\n" for end in ends)
    assert text.count(last) == 1, "the table of state changes is written in another way"
    at = text[: text.index(last)].count("\n") + 1
    holding = "{[BINDING] = true, [BOUND] = true, [RUNNING] = true, [RELEASING_STATE] = true}"
    own = "".join(f"allowed[{end}] = {holding}\n" for end in ends)
    for target in (*_STATES[:1], *_STATES[2:]):
        for current in _STATES[1:]:
            change = f"allowed[{target}][{current}] = not allowed[{target}][{current}]\n"
            yield Mutant(part, at, f"{current} to {target}", text.replace(last, own + change))
