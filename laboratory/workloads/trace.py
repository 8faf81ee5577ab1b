"""Job traces: who submitted what, when, for how long and how wide, as columns.

Two formats are read: CSV (also gzip) with a header line, whose columns are named by the caller, and
the Standard Workload Format (18 numbers per line, comment lines start with ``;``).
A :class:`TraceError` is the user's to correct: it names file, line, column and what to do.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import numpy as np

from shared.codec.packed import replace
from shared.manifests.fields.metadata import LONGEST_RUN

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_QUEUE = "default"
MAX_WIDTH = 1_000_000
"""A larger width of a job is taken as a sign of a wrong column."""


class TraceError(Exception):
    """A trace or its columns cannot be read. The message is complete, with the remedy."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their submission; the arrays run in parallel."""

    submit: NDArray[np.float64]
    """Seconds after the first submission."""
    duration: NDArray[np.float64]
    """Seconds that every task of the job runs."""
    width: NDArray[np.int64]
    """Tasks of the job, one GPU or processor each; all of them or none."""
    queue: NDArray[np.int64]
    """Index into ``queues``."""
    queues: tuple[str, ...]
    """Queue names as written, in the order in which they first appear."""
    unusable: dict[str, int] = field(default_factory=dict)
    """Reason -> number of lines skipped because they contain no job that could run."""

    @property
    def jobs(self) -> int:
        return len(self.width)

    @property
    def tasks(self) -> int:
        return int(self.width.sum())


@dataclass(frozen=True, slots=True)
class TraceColumns:
    """The columns of a CSV file. ``queue`` None puts every job into one queue."""

    submit: str = "submit"
    duration: str = "duration"
    gpus: str = "gpus"
    queue: str | None = "queue"


Row = tuple[float, float, int, str]
"""Submission (seconds from any origin), duration, width, and queue of a job."""


def read_trace(
    path: Path, *, columns: TraceColumns | None = None, limit: int | None = None
) -> Trace:
    """Read a trace; the format follows from the suffix (.swf and .swf.gz, else CSV). ``limit``:
    keep only the first jobs by submission. Raises :class:`TraceError`.
    """
    swf = path.name.removesuffix(".gz").endswith(".swf")
    if swf and columns is not None:
        raise TraceError(
            f"{path}: --columns is for CSV files; the fields of an .swf file are fixed"
        )
    try:
        with _open(path) as lines:
            rows = parse_swf(lines, path.name) if swf else parse_csv(lines, columns, path.name)
            trace = collect(rows, limit=limit)
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not text in UTF-8; give a CSV or .swf file") from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path}: cannot be read: {why}") from None
    if trace.jobs == 0:
        why = ", ".join(f"{count} lines with {why}" for why, count in trace.unusable.items())
        raise TraceError(f"{path}: holds no job that could run ({why or 'no lines at all'})")
    return trace


def _open(path: Path) -> TextIO:
    if path.name.endswith(".gz"):
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")


def parse_columns(text: str) -> TraceColumns:
    """Parse ``submit=timestamp,gpus=num_gpus``; other columns keep their default names. Without
    ``queue=`` all jobs go to one queue. Raises :class:`TraceError`.
    """
    names = [f.name for f in fields(TraceColumns)]
    columns = TraceColumns(queue=None)
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise TraceError(f"--columns: {part.strip()!r} is not of the form name=column")
        if name not in names:
            raise TraceError(f"--columns: {name!r} is unknown; {_suggest(name, names)}")
        columns = replace(columns, **{name: column})
    return columns


def _suggest(word: str, names: list[str]) -> str:
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}there are: {', '.join(names)}"


# --- CSV --------------------------------------------------------------------------------------


def parse_csv(lines: Iterable[str], columns: TraceColumns | None, name: str) -> Iterator[Row | str]:
    """Jobs of a CSV file with a header line; a string in place of a job says why it cannot run.
    ``columns`` None: the default names, and a single queue if the file has no queue column.
    """
    reader = csv.reader(lines)
    header = [cell.strip() for cell in next(reader, [])]
    if not header:
        raise TraceError(f"{name}: is empty; the first line must name the columns")
    if columns is None:
        columns = TraceColumns(queue="queue" if "queue" in header else None)
    at = _positions(header, columns, name)
    clock = _Clock()
    try:
        for cells in reader:
            if not cells:
                continue
            if len(cells) <= max(at):
                raise TraceError(
                    f"{name}: line {reader.line_num} has {len(cells)} columns, "
                    f"the header has {len(header)}; correct or remove the line"
                )
            yield _csv_row(cells, at, columns, clock, f"{name}: line {reader.line_num}")
    except csv.Error as error:
        raise TraceError(f"{name}: line {reader.line_num} is not CSV: {error}") from None


def _positions(header: list[str], columns: TraceColumns, name: str) -> list[int]:
    """Indices of submit, duration, gpus and (if there is one) queue."""
    at = []
    for f in fields(TraceColumns):
        column = getattr(columns, f.name)
        if column is None:
            continue
        if column not in header:
            raise TraceError(
                f"{name}: there is no column {column!r} for {f.name}; "
                f"{_suggest(column, header)}. Set it with --columns {f.name}=NAME"
            )
        at.append(header.index(column))
    return at


def _csv_row(
    cells: list[str], at: list[int], columns: TraceColumns, clock: _Clock, where: str
) -> Row | str:
    submit = clock.seconds(cells[at[0]].strip(), f"{where}, column {columns.submit!r}")
    duration = _number(cells[at[1]].strip(), f"{where}, column {columns.duration!r}")
    width = _number(cells[at[2]].strip(), f"{where}, column {columns.gpus!r}")
    queue = cells[at[3]].strip() if columns.queue is not None else ""
    names = tuple(f"column {name!r}" for name in (columns.submit, columns.duration, columns.gpus))
    return _usable((submit, duration, width), queue or NO_QUEUE, where, names)


UNKNOWN = frozenset({"", "-", "na", "n/a", "nan", "nat", "none", "null"})


def _number(text: str, where: str) -> float | None:
    """The number in a cell; None if the cell says that it is unknown."""
    try:
        value = float(text)
    except ValueError:
        if text.lower() in UNKNOWN:
            return None
        raise TraceError(f"{where}: {text!r} is not a number; is it the right column?") from None
    if math.isinf(value):
        raise TraceError(f"{where}: {text!r} is not a finite number; correct or remove the line")
    return None if math.isnan(value) else value


class _Clock:
    """Parses submission times. The first decides whether the column has seconds or date-times.

    Date-times without an offset are taken as UTC, since only differences matter.
    """

    def __init__(self) -> None:
        self._dates: bool | None = None

    def seconds(self, text: str, where: str) -> float | None:
        if text.lower() in UNKNOWN:
            return None
        if self._dates is None:
            self._dates = not _is_number(text)
        if not self._dates:
            return _number(text, where)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise TraceError(
                f"{where}: {text!r} is neither seconds nor a date-time such as 2017-10-09 07:01:55"
            ) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- Standard Workload Format -------------------------------------------------------------------

_SWF_NAMES = {2: "submit time", 4: "run time", 5: "processors", 6: "CPU time", 8: "requested"}
_SWF_FIELDS = ("field 2 (submit time)", "field 4 (run time)", "field 5 (processors)")


def parse_swf(lines: Iterable[str], name: str) -> Iterator[Row | str]:
    """Jobs of a Standard Workload Format file; fields are counted from 1 and -1 is "unknown".

    Submission is field 2, the run time field 4 (else 6, the CPU time), processors field 5 (else 8,
    those asked for), and the user of field 12 is the queue.
    """
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells or cells[0].startswith(";"):
            continue
        where = f"{name}: line {number}"
        if len(cells) < 12:
            raise TraceError(f"{where} has {len(cells)} fields; at least 12 are needed, of 18")
        submit, run, cpu, used, requested = (_swf_field(cells, i, where) for i in (2, 4, 6, 5, 8))
        duration = cpu if run is None else run
        width = requested if used is None else used
        user = "unknown" if cells[11] == "-1" else cells[11]
        yield _usable((submit, duration, width), f"user-{user}", where, _SWF_FIELDS)


def _swf_field(cells: list[str], index: int, where: str) -> float | None:
    value = _number(cells[index - 1], f"{where}, field {index} ({_SWF_NAMES[index]})")
    return None if value is None or value == -1 else value


# --- common -----------------------------------------------------------------------------------


def _usable(
    numbers: tuple[float | None, float | None, float | None],
    queue: str,
    where: str,
    names: tuple[str, ...],
) -> Row | str:
    """``numbers``: submission, duration and width; ``names``: of their columns, for the error."""
    submit, duration, width = numbers
    if submit is None:
        return "no submission time"
    if duration is None or duration < 0:
        return "no duration"
    if width is None or width <= 0:
        return "no GPUs or processors"
    if width != int(width) or width > MAX_WIDTH:
        raise TraceError(
            f"{where}, {names[2]}: {width:g} must be a whole number of at most {MAX_WIDTH:,}; "
            "is it the right column?"
        )
    for seconds, name in ((submit, names[0]), (duration, names[1])):
        if abs(seconds) > LONGEST_RUN:
            raise TraceError(
                f"{where}, {name}: {seconds:g} must be at most {LONGEST_RUN:g} seconds; "
                "is it the right column?"
            )
    return submit, duration, int(width), queue


def collect(rows: Iterable[Row | str], *, limit: int | None = None) -> Trace:
    """Sort jobs by submission (ties keep their order) and keep the first ``limit``."""
    submit, duration, width = array("d"), array("d"), array("q")
    queue, names, unusable = array("q"), dict[str, int](), dict[str, int]()
    for row in rows:
        if isinstance(row, str):
            unusable[row] = unusable.get(row, 0) + 1
            continue
        submit.append(row[0])
        duration.append(row[1])
        width.append(row[2])
        queue.append(names.setdefault(row[3], len(names)))
    times = np.array(submit, dtype=np.float64)
    keep = np.argsort(times, kind="stable")[:limit]
    times = times[keep]
    return Trace(
        submit=times - times[0] if len(times) else times,
        duration=np.array(duration, dtype=np.float64)[keep],
        width=np.array(width, dtype=np.int64)[keep],
        queue=np.array(queue, dtype=np.int64)[keep],
        queues=tuple(names),
        unusable=unusable,
    )
