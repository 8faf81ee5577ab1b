"""The Standard Workload Format: 18 numbers per line, comment lines start with ``;``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from laboratory.workloads.columns import TableError

SwfJob = tuple[float, float, float, str]
"""Submission and duration in seconds, processors (NaN where unknown), and user."""
_NAMES = {2: "submit time", 4: "run time", 5: "processors", 6: "CPU time", 8: "requested"}


def parse_swf(lines: Iterable[str], name: str) -> Iterator[SwfJob]:
    """Parse the jobs of a file; fields are counted from 1 and -1 is "unknown".

    Submission is field 2, the run time field 4 (else 6, the CPU time), processors field 5 (else 8,
    those asked for), and the user field 12. Raises :class:`TableError`.
    """
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells or cells[0].startswith(";"):
            continue
        where = f"{name}: line {number}"
        if len(cells) < 12:
            raise TableError(f"{where} has {len(cells)} fields; at least 12 are needed, of 18")
        submit, run, cpu, used, requested = (_number(cells, i, where) for i in (2, 4, 6, 5, 8))
        duration = cpu if math.isnan(run) else run
        processors = requested if math.isnan(used) else used
        user = "unknown" if cells[11] == "-1" else cells[11]
        yield submit, duration, processors, f"user-{user}"


def _number(cells: list[str], index: int, where: str) -> float:
    text = cells[index - 1]
    try:
        value = float(text)
    except ValueError:
        raise TableError(
            f"{where}, field {index} ({_NAMES[index]}): {text!r} is not a number; correct or "
            "remove the line"
        ) from None
    return math.nan if value == -1 or math.isinf(value) else value
