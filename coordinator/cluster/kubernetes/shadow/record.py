"""Record of the shadow: lines of JSON in a file, and the trace of jobs in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

NAME = "shadow.jsonl"
"""Name of the file in the data directory."""
HEAD = ("submit", "duration", "gpus", "queue")
"""Columns of a trace of jobs, as ``quadrant demo --trace`` has them by default."""


class ShadowRecord:
    """Appends to a file; about 500 bytes for the life of a pod."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, event: str, at: float, **facts: Any) -> None:
        if self._file is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        self._file.write(orjson.dumps({"event": event, "at": at, **facts}) + b"\n")

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(slots=True)
class _RecordedJob:
    queue: str
    submit: float
    tasks: int = 0
    started: float = float("inf")
    ended: float = 0.0
    running: set[str] = field(default_factory=set)


def trace_rows(lines: Iterable[bytes], *, hashed: bool = False) -> Iterator[tuple[str, ...]]:
    """One row for each job: when its first pod came, how long its pods ran, how many they were, its
    queue. A job that has not ended has no duration. ``hashed``: queues without their names."""
    jobs: dict[str, _RecordedJob] = {}
    job_of: dict[str, _RecordedJob] = {}
    for line in lines:
        if not line.endswith(b"\n"):
            break  # it is being written
        event = orjson.loads(line)
        at, uid = event["at"], event.get("uid", "")
        match event["event"]:
            case "arrived" if uid not in job_of:
                job = jobs.setdefault(event["job"], _RecordedJob(event["queue"], at))
                job.tasks += 1
                job_of[uid] = job
            case "placed" if uid in job_of:
                job_of[uid].started = min(job_of[uid].started, at)
                job_of[uid].running.add(uid)
            case "ended" if uid in job_of:
                job_of[uid].ended = max(job_of[uid].ended, at)
                job_of[uid].running.discard(uid)
    for job in sorted(jobs.values(), key=lambda job: job.submit):
        lasted = job.ended - job.started
        has_duration = job.ended and not job.running and lasted > 0
        queue = hashlib.sha256(job.queue.encode()).hexdigest()[:12] if hashed else job.queue
        yield f"{job.submit:.3f}", f"{lasted:.3f}" if has_duration else "", str(job.tasks), queue
