"""Past of one job in a history, from the part of the file since it was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from coordinator.cluster.history import job_past
from coordinator.cluster.history.job_past import (
    PastEviction,
    PastPlacement,
    PastStates,
    past_of_job,
)
from shared.messages.messages import TaskState

Event = dict[str, Any]


def commit(t: float, jid: int, **more: Any) -> Event:
    statement = {"jid": jid, "verdict": "COMMITTED", "alloc": [], "nominate": [], "dropped": []}
    return {"t": t, "src": "ledger", "ev": "commit", "shard": "1", "statements": [statement | more]}


def status(t: float, state: str, *of: int, ev: str = "status") -> Event:
    items = [[state, jid, [0, 1], [4, 5]] for jid in of]
    return {"t": t, "src": "ledger", "ev": ev, "items": items}


def written(path: Path, *events: Event, tail: bytes = b"") -> Path:
    lines = b"".join(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in events)
    path.write_bytes(lines + tail)
    return path


def test_placements_evictions_and_states_of_the_job_alone(tmp_path: Path) -> None:
    evict = [[7, 1, 0, 0, [2, 3], [4, 4], []], [8, 1, 0, 0, [0], [4], []]]
    path = written(
        tmp_path / "h.jsonl",
        commit(10.0, 7, alloc=[[0, 4, 0, 1], [1, 5, 0, 2]]),
        commit(11.0, 17, alloc=[[7, 7, 7, 7]]),
        status(12.0, "RUNNING", 6, 7),
        commit(13.0, 9, evict=evict, reason="preempt (gang)", nominate=[[0, 4, 0, 3]]),
        status(14.0, "RELEASING", 7, ev="adopted"),
        tail=b'{"t":15.0,"ev":"status","items":[["FAILED",7,',
    )
    assert past_of_job(path, 7, since=9.0, until=20.0) == [
        PastPlacement(10.0, 1, [0, 1], [4, 5], [1, 2], is_nomination=False),
        PastStates(12.0, TaskState.RUNNING, [0, 1]),
        PastEviction(13.0, 7, [2, 3], 9, "preempt (gang)"),
        PastStates(14.0, TaskState.RELEASING, [0, 1]),
    ]
    assert past_of_job(path, 9, since=9.0, until=20.0) == [
        PastPlacement(13.0, 1, [0], [4], [3], is_nomination=True),
        PastEviction(13.0, 7, [2, 3], 9, "preempt (gang)"),
        PastEviction(13.0, 8, [0], 9, "preempt (gang)"),
    ]
    assert past_of_job(path, 7, since=11.0, until=13.0) == [
        PastStates(12.0, TaskState.RUNNING, [0, 1])
    ]


def test_only_the_part_since_the_job_was_stored_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [status(float(at), "RUNNING", at % 50) for at in range(0, 40_000, 2)]
    path = written(tmp_path / "h.jsonl", *events)
    expected = [float(at) for at in range(30_000, 31_000, 2) if at % 50 == 8]
    # As much as these events need, and the search's last step: from the beginning it is too little.
    monkeypatch.setattr(job_past, "MOST_BYTES", path.stat().st_size // 10)
    past = past_of_job(path, 8, since=30_000.0, until=31_000.0)
    assert [event.at for event in past] == expected
    with pytest.raises(FileNotFoundError):
        past_of_job(tmp_path / "none", 8, since=0.0, until=1.0)
