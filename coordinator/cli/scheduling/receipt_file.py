"""Receipts from the file that ``quadrant lab --receipts`` writes: a JSON object on each line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coordinator.cli.options.failure import CommandError

Json = dict[str, Any]

FILE = "receipts.jsonl"
MADE_BY = "it is written by quadrant lab WEEK --out FILE.html --receipts"


def receipts_from(source: Path, job: str) -> list[Json]:
    """The receipts of a job, one for each run. ``source``: the file, or the folder that has it.
    Raises :class:`CommandError`."""
    path = source / FILE if source.is_dir() else source
    mark = f'"job":{json.dumps(job)},'
    try:
        with path.open() as file:
            # Jobs that others waited behind are named in lines of these, too.
            lines = (json.loads(line) for line in file if mark in line)
            bodies = [_body(line) for line in lines if line["job"] == job]
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}; {MADE_BY}") from None
    except (ValueError, KeyError, TypeError) as error:
        kind = type(error).__name__
        raise CommandError(f"{path}: is no file of receipts ({kind}: {error}); {MADE_BY}") from None
    if not bodies:
        raise CommandError(f"{path}: has no job {job}; jobs.csv beside it has the names")
    return bodies


def _body(line: Json) -> Json:
    return {
        "kind": "Receipt",
        "of": {"kind": "Job", "name": line["job"]},
        "run": {name: line[name] for name in ("policy", "shards", "seed")},
        "receipt": line["receipt"],
        "attempts": line["attempts"],
        "if": [],
        "next": None,
    }
