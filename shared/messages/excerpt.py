"""The context of a turn that needs a session: jobs and queue totals beside the worker's own view.

A turn without a session needs none. A turn that considers victims or neighbours carries the jobs
that matter, whole, and the totals of all queues; the worker already has nodes, classes and objects.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from shared.codec.checked import (
    Malformed,
    binary,
    count,
    each,
    indices,
    integer,
    mapping,
    pack_sealed,
    row,
    text,
    texts,
    unpack_sealed,
)
from shared.messages.messages import TaskState
from shared.units.things import Things

_KIND = b"excerpt"
_STATES = len(TaskState)

TOTALS = ("allocated", "requested", "releasing", "inqueue", "kept", "reserved", "claimed")

Amounts = dict[int, int]


@dataclass(frozen=True, slots=True)
class QueueExcerpt:
    """A queue and its own totals, as in :class:`shard_worker.session_model.workload.QueueInfo`."""

    spec: bytes
    jobs: int
    totals: list[Amounts]
    """In the order of :data:`TOTALS`."""


@dataclass(frozen=True, slots=True)
class JobExcerpt:
    """A job with its present state. ``states`` and ``rows`` by tix; a row is valid only in a state
    that holds a node.

    ``keys``: the keys of :attr:`Excerpt.versions` that changes of its tasks increment.
    """

    spec: bytes
    states: bytes
    rows: array[int]
    keys: list[str] = field(default_factory=list)
    phase: str = ""
    """Present phase of its PodGroup."""
    nominated: dict[int, int] = field(default_factory=dict)
    """tix -> row, for nominated tasks."""
    started: dict[int, float] = field(default_factory=dict)
    """tix -> start time in seconds since 1970, where known."""
    devices: dict[int, Things] = field(default_factory=dict)
    """tix -> what it takes of devices of its node, of tasks that take any."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """``jobs``: the turn's own job first, if the turn has one."""

    total: Amounts
    """Sum of all nodes' allocatable."""
    free: Amounts
    """The part of it that no task holds."""
    promised: Amounts
    """What admitted jobs may still request."""
    queues: list[QueueExcerpt]
    jobs: list[JobExcerpt]
    versions: dict[str, int] = field(default_factory=dict)
    """Key of a cross-node constraint (a budget, a term between tasks, a volume, a claim) -> its
    version when this was written: part of the read set of a statement that it matters to."""
    spared: list[int] = field(default_factory=list)
    """Jobs that were left out because of the size limit, and may not be evicted: a key counts
    them."""
    usage: dict[str, list[float]] = field(default_factory=dict)
    """Node name -> percent in use of its cpu and memory, -1 where unknown; only for policies with a
    plugin that reads usage."""


def encode_excerpt(excerpt: Excerpt) -> bytes:
    return pack_sealed(
        _KIND,
        [
            excerpt.total,
            excerpt.free,
            excerpt.promised,
            [[q.spec, q.jobs, q.totals] for q in excerpt.queues],
            [_job_row(job) for job in excerpt.jobs],
            excerpt.versions,
            excerpt.spared,
            excerpt.usage,
        ],
    )


def _job_row(job: JobExcerpt) -> list[Any]:
    rows = job.rows.tobytes()
    known = [job.keys, job.phase, job.nominated, job.started, job.devices]
    return [job.spec, job.states, rows, *known]


def decode_excerpt(data: bytes) -> Excerpt:
    """Errors: Malformed."""
    at = "excerpt"
    total, free, promised, *rest = row(unpack_sealed(_KIND, data), at, 8)
    queues, jobs, versions, spared, usage = rest
    return Excerpt(
        total=_amounts(total, f"{at}.total"),
        free=_amounts(free, f"{at}.free"),
        promised=_amounts(promised, f"{at}.promised"),
        queues=each(queues, f"{at}.queues", _queue),
        jobs=each(jobs, f"{at}.jobs", _job),
        versions=mapping(versions, f"{at}.versions", text, count),
        spared=indices(spared, f"{at}.spared"),
        usage=mapping(usage, f"{at}.usage", text, _percents),
    )


def _queue(value: object, at: str) -> QueueExcerpt:
    spec, jobs, totals = row(value, at, 3)
    return QueueExcerpt(
        spec=binary(spec, at),
        jobs=count(jobs, at),
        totals=[_amounts(total, at) for total in row(totals, f"{at}.totals", len(TOTALS))],
    )


def _job(value: object, at: str) -> JobExcerpt:
    spec, states, rows, keys, phase, nominated, started, devices = row(value, at, 8)
    if any(state >= _STATES for state in set(binary(states, at))):
        raise Malformed(f"{at}: a byte that is no state of a task")
    if len(binary(rows, at)) != 4 * len(states):
        raise Malformed(f"{at}: its states and rows differ in number")
    return JobExcerpt(
        spec=binary(spec, at),
        states=states,
        rows=array("i", rows),
        keys=texts(keys, at),
        phase=text(phase, at),
        nominated=mapping(nominated, at, count, count),
        started=mapping(started, at, count, _seconds),
        devices=mapping(devices, at, count, _devices),
    )


def _devices(value: object, at: str) -> Things:
    return tuple((text(name, at), tuple(amounts)) for name, amounts in each(value, at, _device))


def _device(value: object, at: str) -> tuple[str, list[int]]:
    name, amounts = row(value, at, 2)
    return text(name, at), each(amounts, at, count)


def _amounts(value: object, at: str) -> Amounts:
    return mapping(value, at, count, integer)


def _percents(value: object, at: str) -> list[float]:
    return [_seconds(percent, at) for percent in row(value, at, 2)]


def _seconds(value: object, at: str) -> float:
    if type(value) is not float:
        raise Malformed(f"{at}: a number wanted, got {type(value).__name__}")
    return value
