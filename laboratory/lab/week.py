"""A recorded week: the jobs that people submitted, as columns."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laboratory.lab.formats import format_of
from laboratory.workloads.columns import TIME_UNITS, CsvTable, TableError, open_text, read_table
from laboratory.workloads.swf import parse_swf
from shared.codec.packed import replace
from shared.manifests.fields.metadata import LONGEST_RUN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MOST_PODS = 1_000_000
"""A larger number of pods of a job is taken as a sign of a wrong column."""
MOST_DROPPED = 0.01
"""Share of the rows that may be unusable without a word of the user."""
LONG_MEDIAN = 1e6
"""A median duration of more than 11 days is taken for another unit."""
LATE_SUBMISSION = 1e11
"""A median submission after the year 5000 is, too."""
SHARE = "a part of a GPU"
"""Reason to leave jobs out where nothing places them."""
NAMES = (
    *("name", "submit", "duration", "gpus", "pods", "cpu", "memory"),
    *("queue", "user", "priority"),
)
REQUIRED = ("submit", "duration", "gpus")


class WeekError(Exception):
    """A week cannot be read or played. The message is complete, with the remedy."""


@dataclass(frozen=True, slots=True)
class Week:
    """Jobs in the order of their submission; the arrays run in parallel."""

    name: Sequence[str]
    submit: Floats
    """Seconds after the first submission."""
    duration: Floats
    """Seconds that every pod of the job runs."""
    pods: Ints
    """Pods of the job, all of them or none."""
    gpus: Floats
    """GPUs of each pod: whole ones, or a part of one."""
    cpu: Floats
    """Cores of each pod; 0 asks for none."""
    memory: Floats
    """MiB of each pod; 0 asks for none."""
    queue: Sequence[str]
    user: Sequence[str]
    priority: Ints
    rest: Ints
    """GPUs of one more pod of the job, which is smaller than the others; 0: there is none."""
    source: str = ""
    rows: int = 0
    """Rows of the file; those that are not jobs here are in ``dropped``."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of rows left out."""

    def __len__(self) -> int:
        return len(self.submit)

    @property
    def size(self) -> Floats:
        """GPUs of each job."""
        return self.pods * self.gpus + self.rest

    @property
    def has_shares(self) -> bool:
        return bool(is_share(self.gpus).any())

    @property
    def has_gpus(self) -> bool:
        return bool(self.size.any())

    @property
    def cores(self) -> Floats:
        """Cores of each job."""
        return self.cpu * (self.pods + (self.rest > 0) * self.rest / np.maximum(self.gpus, 1))

    @classmethod
    def of(cls, **columns: Any) -> Week:
        """Make a week of columns: ``submit``, ``duration``, ``gpus`` (of each pod) and, where they
        differ from the defaults, ``pods``, ``cpu``, ``memory``, ``queue``, ``user``, ``priority``
        and ``name``. Raises :class:`WeekError`.
        """
        if unknown := set(columns) - set(NAMES) | set(REQUIRED) - set(columns):
            raise WeekError(
                f"a week of columns {', '.join(sorted(columns))}: {', '.join(sorted(unknown))} "
                f"is missing or unknown; there are {', '.join(NAMES)}, of which "
                f"{', '.join(REQUIRED)} are needed"
            )
        count = len(columns["submit"])
        numbers = {
            name: np.asarray(columns[name], dtype=np.float64) for name in _NUMERIC & set(columns)
        }
        texts = {name: list(map(str, columns[name])) for name in _TEXTS & set(columns)}
        for name, values in (numbers | texts).items():
            if len(values) != count:
                raise WeekError(f"column {name} has {len(values)} rows, submit has {count}")
        return _collect(numbers, texts, count, source="columns")

    def head(self, jobs: int) -> Week:
        """The first jobs by submission."""
        return self._select(np.arange(min(jobs, len(self))))

    def tail(self, jobs: int) -> Week:
        """The others: all but the first jobs by submission."""
        return self._select(np.arange(min(jobs, len(self)), len(self)))

    def without(self, out: NDArray[np.bool_], reason: str) -> Week:
        """The other jobs; those left out are counted under the reason."""
        left = self._select(np.flatnonzero(~out))
        if not (count := int(out.sum())):
            return left
        return replace(left, dropped={**self.dropped, reason: self.dropped.get(reason, 0) + count})

    def _select(self, keep: NDArray[np.intp]) -> Week:
        submit = self.submit[keep]
        return replace(
            self,
            name=[self.name[i] for i in keep],
            queue=[self.queue[i] for i in keep],
            user=[self.user[i] for i in keep],
            submit=submit - submit[0] if len(submit) else submit,
            **{name: getattr(self, name)[keep] for name in _PARALLEL},
        )

    def cut(self, gpus_per_node: int) -> Week:
        """Cut every job of one pod that is larger than a node into pods of a whole node, and one
        with the rest; its cores and memory are divided like its GPUs."""
        wide = (self.pods == 1) & (self.rest == 0) & (self.gpus > gpus_per_node)
        if gpus_per_node == 0 or not wide.any():
            return self
        share = np.where(wide, gpus_per_node / np.maximum(self.gpus, 1), 1.0)
        return replace(
            self,
            pods=np.where(wide, self.gpus // gpus_per_node, self.pods).astype(np.int64),
            rest=np.where(wide, self.gpus % gpus_per_node, self.rest).astype(np.int64),
            gpus=np.where(wide, float(gpus_per_node), self.gpus),
            cpu=self.cpu * share,
            memory=self.memory * share,
        )

    def digest(self) -> str:
        """SHA-256 of all columns: two weeks with one digest play alike."""
        mark = hashlib.sha256()
        for name in ("submit", *_PARALLEL):
            mark.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        for texts in (self.name, self.queue, self.user):
            mark.update("\0".join(texts).encode() + b"\1")
        return mark.hexdigest()

    def check_dropped(self) -> None:
        """Raises :class:`WeekError` if more rows were left out than a mistake explains."""
        lost = sum(self.dropped.values())
        if lost > MOST_DROPPED * self.rows:
            raise WeekError(
                f"{self.source}: {lost:,} of {self.rows:,} rows are left out "
                f"({dropped_text(self.dropped)}); correct --columns, or say --allow-dropped"
            )

    @classmethod
    def read(cls, path: Path | str, **source: Any) -> Week:
        """Read a file of jobs; ``source``: columns, separator, nulls and first, see
        :class:`WeekSource`. Raises :class:`WeekError`."""
        return WeekSource(**source).read(Path(path))


@dataclass(frozen=True, slots=True)
class WeekSource:
    """How a file of jobs is read: a CSV file or, by the suffix .swf, the Standard Workload Format;
    .gz too."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Name of a column here -> expression of the file's columns."""
    separator: str = ""
    """Between cells; "" takes the one that the header has most of."""
    nulls: tuple[str, ...] = ()
    """Cells without a value, beside the usual ones."""
    first: int | None = None
    """Number of jobs to keep, by submission."""
    skip: int = 0
    """Number of jobs to leave out of those, by submission."""

    def read(self, path: Path) -> Week:
        """Raises :class:`WeekError`."""
        try:
            if not path.name.removesuffix(".gz").endswith(".swf"):
                table = read_table(path, separator=self.separator, nulls=self.nulls)
                week = _of_table(table, self.columns)
            elif self.columns:
                raise WeekError(
                    f"{path}: --columns is for CSV files; the fields of an .swf file are fixed"
                )
            else:
                week = _read_swf(path)
        except TableError as error:
            raise WeekError(str(error)) from None
        week = week if self.first is None else week.head(self.first)
        return week.tail(self.skip) if self.skip else week


_NUMERIC = frozenset({"submit", "duration", "gpus", "pods", "cpu", "memory", "priority"})
_TEXTS = frozenset({"name", "queue", "user"})
_PARALLEL = ("duration", "pods", "gpus", "cpu", "memory", "priority", "rest")


def is_share(gpus: Floats) -> NDArray[np.bool_]:
    """Pods that ask for a part of a GPU."""
    return (gpus > 0) & (gpus < 1)


def dropped_text(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} with {reason}" for reason, count in dropped.items())


def parse_columns(text: str) -> dict[str, str]:
    """Parse ``submit=ts ms,duration=end-start``. Raises :class:`WeekError`."""
    columns = {}
    for part in text.split(","):
        name, equals, expression = (piece.strip() for piece in part.partition("="))
        if not equals or not expression:
            raise WeekError(f"--columns: {part.strip()!r} is not of the form name=column")
        if name not in NAMES:
            raise WeekError(f"--columns: {name!r} is unknown; there are {', '.join(NAMES)}")
        columns[name] = expression
    return columns


def _of_table(table: CsvTable, columns: Mapping[str, str]) -> Week:
    header = set(table.header)
    known = format_of(frozenset(header))
    written = {column.lower(): column for column in table.header} | {h: h for h in header}
    chosen = {n: written.get(n, n) for n in NAMES if n in written or n in REQUIRED}
    if known is not None:
        chosen |= known.chosen(frozenset(header))
    chosen |= columns
    numbers, texts = {}, {}
    for name, expression in chosen.items():
        if name in _NUMERIC:
            numbers[name] = table.numbers(expression, name)
        else:
            texts[name] = table.text(expression, name)
    for name in ("submit", "duration"):
        if chosen[name].rpartition(" ")[2] not in TIME_UNITS:
            _check_unit(name, chosen[name], numbers[name], table.name)
    out = {}
    if known is not None and known.not_steps:
        ids = table.text(known.not_steps, "name")
        out["a step of a job (sacct -X leaves them out)"] = np.array(["." in name for name in ids])
    return _collect(numbers, texts, table.rows, source=table.name, out=out)


def _read_swf(path: Path) -> Week:
    """Every processor is a pod of one core."""
    try:
        with open_text(path) as lines:
            jobs = list(parse_swf(lines, path.name))
    except UnicodeDecodeError:
        raise WeekError(f"{path}: is not text in UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WeekError(f"{path}: cannot be read: {why}") from None
    submit, duration, processors, users = zip(*jobs, strict=True) if jobs else ((),) * 4
    numbers = {
        "submit": np.array(submit, dtype=np.float64),
        "duration": np.array(duration, dtype=np.float64),
        "pods": np.array(processors, dtype=np.float64),
        "gpus": np.zeros(len(jobs)),
        "cpu": np.ones(len(jobs)),
    }
    texts = {"queue": list(users), "user": list(users)}
    return _collect(numbers, texts, len(jobs), source=path.name)


# --- checks -----------------------------------------------------------------------------------


def _collect(
    numbers: dict[str, Floats],
    texts: dict[str, list[str]],
    count: int,
    *,
    source: str,
    out: Mapping[str, NDArray[np.bool_]] = {},
) -> Week:
    """Drop unusable rows by their reason, check the units, and sort by submission. ``out``: reason
    -> rows that are no jobs, beside those that have no usable values."""
    full = {"pods": np.ones(count), "cpu": np.zeros(count), "memory": np.zeros(count)}
    full |= {"priority": np.zeros(count)} | numbers
    full["priority"] = np.nan_to_num(full["priority"])
    for name in ("cpu", "memory"):
        full[name] = np.nan_to_num(full[name])
    keep, dropped = np.ones(count, dtype=bool), dict[str, int]()
    for reason, unusable in (*out.items(), *_reasons(full)):
        if lost := int((keep & unusable).sum()):
            dropped[reason] = lost
        keep &= ~unusable
    if not keep.any():
        raise WeekError(
            f"{source}: holds no job that could run ({dropped_text(dropped) or 'no rows at all'})"
        )
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(full["submit"][rows], kind="stable")]
    picked = {name: values[rows] for name, values in full.items()}
    _check_bounds(picked, source)
    names = texts.get("name") or [str(row + 1) for row in range(count)]
    queues, users = texts.get("queue") or [""] * count, texts.get("user") or [""] * count
    return Week(
        name=[names[row] or str(row + 1) for row in rows],
        submit=picked["submit"] - picked["submit"][0],
        duration=picked["duration"],
        pods=picked["pods"].astype(np.int64),
        gpus=picked["gpus"],
        cpu=picked["cpu"],
        memory=picked["memory"],
        queue=[queues[row] or "default" for row in rows],
        user=[users[row] or "unknown" for row in rows],
        priority=picked["priority"].astype(np.int64),
        rest=np.zeros(len(rows), dtype=np.int64),
        source=source,
        rows=count,
        dropped=dropped,
    )


def _reasons(columns: Mapping[str, Floats]) -> list[tuple[str, NDArray[np.bool_]]]:
    submit, duration, gpus, pods = (columns[n] for n in ("submit", "duration", "gpus", "pods"))
    cpu, memory = columns["cpu"], columns["memory"]
    return [
        ("no submission time", np.isnan(submit)),
        ("no duration", np.isnan(duration)),
        ("a negative duration", duration < 0),
        ("no GPUs", np.isnan(gpus) | (gpus < 0)),
        ("no pods or processors", np.isnan(pods) | (pods < 1)),
        ("GPUs and a part of one", (gpus > 1) & (gpus != np.floor(gpus))),
        ("a part of a pod or processor", pods != np.floor(pods)),
        ("negative cores or memory", (cpu < 0) | (memory < 0)),
        ("neither GPUs nor cores nor memory", (gpus == 0) & (cpu == 0) & (memory == 0)),
    ]


def _check_unit(name: str, expression: str, seconds: Floats, source: str) -> None:
    """Refuse times that are hardly seconds and whose unit nobody stated."""
    median = float(np.nanmedian(seconds)) if not np.isnan(seconds).all() else 0.0
    most = LONG_MEDIAN if name == "duration" else LATE_SUBMISSION
    if median >= most:
        raise WeekError(
            f"{source}: {name}s look like milliseconds: median {median:,.0f}; write "
            f"--columns '{name}={expression} ms', or '{name}={expression} s' if they are seconds"
        )


def _check_bounds(columns: Mapping[str, Floats], source: str) -> None:
    for name, most in (("submit", LONGEST_RUN), ("duration", LONGEST_RUN)):
        if (worst := float(np.abs(columns[name]).max())) > most:
            raise WeekError(f"{source}: {name} {worst:g} s is too large; is it the right column?")
    for value in columns["priority"].tolist():
        if not value.is_integer():
            raise WeekError(
                f"{source}: priority {value:g} is not a whole number; multiply the column, as in "
                "--columns 'priority=priority*100'"
            )
    if (most_pods := float((columns["pods"] * np.maximum(columns["gpus"], 1)).max())) > MOST_PODS:
        raise WeekError(
            f"{source}: a job of {most_pods:,.0f} GPUs or pods is beyond {MOST_PODS:,}; "
            "is it the right column?"
        )
