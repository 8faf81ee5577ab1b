"""Columns of a CSV file, read by expressions: ``end - start``, ``ts ms``, ``plan_gpu / 100``.

An expression is a column's name as the header has it, or names and numbers with ``+ - * /`` and
parentheses, and may end in a unit. Names with other characters stand in double quotes.
``AllocTRES[gres/gpu]`` is one amount of a cell such as ``cpu=8,gres/gpu=2,mem=32G``. A cell that
says "unknown" gives NaN, and so does all that is computed with it.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN = frozenset({"", "-", "na", "n/a", "nan", "nat", "none", "null", "\\n", "nil", "unknown"})
"""Cells without a value, in lower case."""
SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": " "}
TIME_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
AMOUNT_UNITS = {"milli": 1e-3, "MiB": 1.0, "GiB": 1024.0, "KiB": 1 / 1024, "B": 1 / 1024**2}
UNITS = TIME_UNITS | AMOUNT_UNITS
_TIMES = ("submit", "duration")
"""Columns that may have date-times, or times of a clock."""
_NUMBER = "a number, with a point and without thousands separators"
_TIME = "a date-time as 2017-10-09 07:01:55, or a time as 1-02:03:04"
_SIZES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
"""MiB of each suffix of an amount of memory."""
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_TOKEN = re.compile(
    r'\s*(?:("[^"]*")|([A-Za-z_][\w.]*(?:\[[^\]]*\])?)|(\d+\.?\d*(?:[eE][+-]?\d+)?)|([-+*/()]))'
)


class TableError(Exception):
    """A table or an expression cannot be read. The message is complete, with the remedy."""


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The cells of a file, column by column."""

    name: str
    header: tuple[str, ...]
    cells: dict[str, list[str]]
    rows: int
    nulls: frozenset[str] = UNKNOWN

    def text(self, column: str, what: str) -> list[str]:
        """The cells of a column, "" where there is no value."""
        self._check(column, what)
        return [
            "" if cell.lower() in self.nulls else cell
            for cell in map(str.strip, self.cells[column])
        ]

    def numbers(self, expression: str, what: str) -> NDArray[np.float64]:
        """The value of an expression in every row; seconds for times."""
        text, factor = expression.strip(), 1.0
        if text not in self.header:
            head, _, unit = text.rpartition(" ")
            if head and unit in UNITS:
                text, factor = head.strip(), UNITS[unit]
        if text in self.header:
            return self._column(text, what) * factor
        with np.errstate(divide="ignore", invalid="ignore"):
            value = _ExpressionParser(self, text, what).parse()
        value = np.where(np.isfinite(value), value, np.nan)  # x/0 has no value
        return value * factor

    def _check(self, column: str, what: str) -> None:
        if column in self.header:
            return
        near = difflib.get_close_matches(column, self.header, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise TableError(
            f"{self.name}: there is no column {column!r} for {what}; {hint}"
            f"there are: {', '.join(self.header)}. Set it with --columns {what}=NAME"
        )

    def _column(self, column: str, what: str) -> NDArray[np.float64]:
        texts = self.text(column, what)
        first = next((text for text in texts if text), "0")
        convert = _seconds if what in _TIMES and not _is_number(first) else float
        values = np.full(self.rows, np.nan)
        for row, text in enumerate(texts):
            if not text:
                continue
            try:
                values[row] = convert(text)
            except ValueError:
                kind = _NUMBER if convert is float or _is_number(text.replace(",", ".")) else _TIME
                raise TableError(
                    f"{self.name}: row {row + 1}, column {column!r} (for {what}): {text!r} is not "
                    f"{kind}; is it the right column? --null {text!r} takes it for a missing value"
                ) from None
        return values

    def _amounts(self, column: str, key: str, what: str) -> NDArray[np.float64]:
        """The amounts of one key in cells such as ``cpu=8,mem=32G``, memory in MiB; 0 where a cell
        has other keys alone."""
        self._check(column, what)
        values = np.full(self.rows, np.nan)
        for row, text in enumerate(self.text(column, what)):
            amounts = dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part)
            amount = amounts.get(key, "0") if amounts else "nan"
            size = _SIZES.get(amount[-1:], 1.0)
            try:
                values[row] = float(amount.rstrip("".join(_SIZES))) * size
            except ValueError:
                raise TableError(
                    f"{self.name}: row {row + 1}, column {column!r} (for {what}): {key}={amount} "
                    "is not an amount; correct or remove the row"
                ) from None
        return values


class _ExpressionParser:
    """Recursive descent over ``sum = product (+- product)*``, ``product = atom (*/ atom)*``."""

    def __init__(self, table: CsvTable, text: str, what: str) -> None:
        self._table, self._text, self._what = table, text, what
        self._tokens = self._split()

    def parse(self) -> NDArray[np.float64]:
        value = self._sum()
        if self._tokens:
            raise self._error(f"{self._tokens[0]!r} is not expected")
        return np.broadcast_to(value, (self._table.rows,)).astype(np.float64)

    def _split(self) -> list[str]:
        tokens, at = [], 0
        while at < len(self._text.rstrip()):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._error(f"{self._text[at:].strip()!r} cannot be read")
            tokens.append(match[0].strip())
            at = match.end()
        return tokens

    def _error(self, why: str) -> TableError:
        return TableError(
            f"--columns: {self._what}={self._text}: {why}; write a column, or columns and numbers "
            "with + - * / and parentheses, and a unit such as ms at the end"
        )

    def _sum(self) -> NDArray[np.float64]:
        value = self._product()
        while self._tokens and self._tokens[0] in "+-":
            sign = 1.0 if self._tokens.pop(0) == "+" else -1.0
            value = value + sign * self._product()
        return value

    def _product(self) -> NDArray[np.float64]:
        value = self._atom()
        while self._tokens and self._tokens[0] in "*/":
            times = self._tokens.pop(0) == "*"
            other = self._atom()
            value = value * other if times else value / other
        return value

    def _atom(self) -> NDArray[np.float64]:
        if not self._tokens:
            raise self._error("it ends too early")
        token = self._tokens.pop(0)
        if token == "(":
            value = self._sum()
            if not self._tokens or self._tokens.pop(0) != ")":
                raise self._error("a parenthesis is not closed")
            return value
        if token[0].isdigit():
            return np.asarray(float(token))
        if token in "+-*/)":
            raise self._error(f"{token!r} is not expected")
        if token.endswith("]"):
            column, _, key = token[:-1].partition("[")
            return self._table._amounts(column, key, self._what)
        column = token.strip('"')
        self._table._check(column, self._what)
        return self._table._column(column, self._what)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds(text: str) -> float:
    """Seconds of a time as ``1-02:03:04`` or ``26:03:04``, else since 1970; a date-time without an
    offset is taken as UTC."""
    if (clock := _CLOCK.fullmatch(text)) is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    moment = datetime.fromisoformat(re.sub(r"\s*(UTC|GMT)$", "+00:00", text))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_table(path: Path, *, separator: str = "", nulls: tuple[str, ...] = ()) -> CsvTable:
    """Read a CSV file with a header line (also gzip). ``separator`` "" takes the one that the
    header has most of. Raises :class:`TableError`."""
    try:
        with open_text(path) as lines:
            first = lines.readline()
            while first.startswith("#"):
                first = lines.readline()
            if first.startswith(("{", "[")):
                raise TableError(f"{path}: is JSON; write its objects as the rows of a CSV file")
            mark = separator or max(SEPARATORS.values(), key=first.count)
            header = tuple(cell.strip() for cell in next(_reader([first], mark), []))
            if not any(header):
                raise TableError(f"{path}: is empty; the first line must name the columns")
            rows = [row for row in _reader(lines, mark) if row]
    except UnicodeDecodeError:
        raise TableError(f"{path}: is not text in UTF-8; give a CSV or .swf file") from None
    except csv.Error as error:
        raise TableError(f"{path}: is not CSV: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TableError(f"{path}: cannot be read: {why}") from None
    return _table(path.name, header, rows, mark, UNKNOWN | {null.lower() for null in nulls})


def _reader(lines: Iterable[str], mark: str) -> Iterator[list[str]]:
    """Cells of each line. Spaces after a separator count for nothing, so that columns of text may
    be aligned."""
    return csv.reader(lines, delimiter=mark, skipinitialspace=True)


def _table(
    name: str, header: tuple[str, ...], rows: list[list[str]], mark: str, nulls: frozenset[str]
) -> CsvTable:
    if len(set(header)) < len(header):
        twice = next(column for column in header if header.count(column) > 1)
        raise TableError(f"{name}: two columns are named {twice!r}; rename one of them")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise TableError(
                f"{name}: row {number} has {len(row)} cells, the header {len(header)} (separated "
                f"by {mark!r}); correct the row, or set --separator to one of "
                f"{', '.join(SEPARATORS)}"
            )
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    cells = {column: list(values) for column, values in zip(header, columns, strict=True)}
    return CsvTable(name, header, cells, len(rows), nulls)


def open_text(path: Path) -> TextIO:
    if path.name.endswith(".gz"):
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")
