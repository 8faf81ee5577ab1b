"""The fields of each walk as both schedulers left them, in a file beside this one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import orjson

from coordinator.cluster.kubernetes.writes.status_queue import LONGEST_PAUSE_SECONDS
from tests.kubernetes.end_states.schedulers import Peer, Surroundings, stage
from tests.kubernetes.end_states.walk import Fields, Walk

FILE = Path(__file__).parent / "recorded.json"
UNCHANGED_SECONDS = {True: 4.0, False: LONGEST_PAUSE_SECONDS + 1.0}
"""Seconds without a change before a moment is recorded: four periods of a real scheduler, and the
longest pause of Quadrant between two writes about an object."""
HELD_SECONDS = 2.0
"""Seconds for which fields have to be as expected: they may be so in passing."""
WITHIN_SECONDS = 60.0
_EVERY = 0.2

Moments = dict[str, Fields]
THEIRS, OURS = "theirs", "ours"
Record = dict[str, dict[str, dict[str, Moments]]]
"""Peer -> walk -> THEIRS or OURS -> moments."""


def read() -> Record:
    record: Record = orjson.loads(FILE.read_bytes())
    return record


def write(record: Record) -> None:
    FILE.write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))


async def walked(
    around: Surroundings,
    peer: Peer,
    walk: Walk,
    *,
    real: bool,
    expected: Moments,
    unchanged: float,
) -> Moments:
    """Fields at each moment: once they are as expected, or nothing moved for ``unchanged``
    seconds."""
    moments: Moments = {}
    async with stage(around, peer, walk, real=real) as scene:
        async for moment in walk.steps(scene):
            wanted = expected.get(moment, {})
            fields = await _fields(around, peer, wanted, unchanged)
            moments[moment] = dict(sorted(fields.items()))
    return moments


async def _fields(around: Surroundings, peer: Peer, expected: Fields, unchanged: float) -> Fields:
    now = time.monotonic()
    deadline, changed_at = now + WITHIN_SECONDS, now
    last: Fields = {}
    while True:
        fields = await peer.read(around.cluster)
        now = time.monotonic()
        if fields != last:
            last, changed_at = fields, now
        is_expected = without_normal_events(fields) == without_normal_events(expected)
        if now - changed_at > (HELD_SECONDS if is_expected else unchanged) or now > deadline:
            return fields
        await asyncio.sleep(_EVERY)


def without_normal_events(fields: Fields) -> Fields:
    """Which of them are written depends on what one turn placed, and on how soon a victim left.
    ``test_statuses.py`` has them where that is certain."""
    return {field: value for field, of in fields.items() if (value := _lasting(field, of))}


def _lasting(field: str, value: str) -> str:
    if not field.endswith(": events"):
        return value
    return ", ".join(event for event in value.split(", ") if not event.startswith("Normal "))
