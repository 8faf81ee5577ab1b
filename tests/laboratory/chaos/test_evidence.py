"""Evidence of a fault in histories that are written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laboratory.chaos.evidence import Evidence, read_evidence
from laboratory.chaos.faults import InjectedFault
from laboratory.chaos.plan import InjectionKind, PlannedFault

Event = dict[str, Any]


def epoch(t: float, writer: str, number: str) -> Event:
    return {"t": t, "src": "ledger", "id": f"{t}", "ev": "epoch", "writer": writer, "epoch": number}


def commit(t: float, shard: int, number: str) -> Event:
    return epoch(t, str(shard), number) | {"ev": "commit"}


def bind(t: float) -> Event:
    return {"t": t, "src": "cluster", "n": 1, "ev": "bind"}


def job(t: float, jid: int, key: str) -> Event:
    return epoch(t, "intake", "1") | {"ev": "job", "jobs": [{"jid": jid, "key": key}]}


def job_gone(t: float, jid: int) -> Event:
    return epoch(t, "intake", "1") | {"ev": "job_gone", "jids": [jid]}


def read(path: Path, *events: Event, torn: str = "") -> Evidence:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    file = path / "history"
    file.write_text(lines + torn)
    return read_evidence(file)


def struck(kind: InjectionKind, target: str, *, at: float, length: float = 0.0) -> InjectedFault:
    blow = PlannedFault(0.0, kind, target, length, 0.0)
    shard, number = (1, "e1") if target == "worker" else (None, "")
    return InjectedFault(blow, target, at, at + length, shard, number)


STORY = (
    epoch(1.0, "coordinator", "c1"),
    epoch(1.0, "1", "e1"),
    epoch(1.0, "2", "f1"),
    commit(9.0, 1, "e1"),
    commit(10.1, 2, "f1"),
    commit(10.2, 1, "e1"),
    bind(10.3),
    epoch(12.0, "coordinator", "c2"),
    epoch(12.1, "1", "e2"),
    epoch(12.1, "2", "f2"),
    commit(13.0, 2, "f2"),
    bind(13.5),
    commit(14.0, 1, "e2"),
)


@pytest.mark.parametrize(
    ("kind", "target", "length", "seconds"),
    [
        (
            InjectionKind.KILL,
            "worker",
            0.0,
            4.0,
        ),  # its next epoch's first commit, not its own last one
        (InjectionKind.PAUSE, "worker", 0.1, 0.2),  # it goes on by itself
        (InjectionKind.PAUSE, "worker", 3.5, 4.0),  # replaced while it was paused
        (
            InjectionKind.KILL,
            "leader",
            0.0,
            3.0,
        ),  # a commit before the next leader's does not count
        (InjectionKind.PAUSE, "leader", 0.05, 0.1),
        (InjectionKind.PAUSE, "leader", 5.0, 3.0),
        (InjectionKind.KILL, "ledger", 0.0, 0.1),
        (InjectionKind.KILL, "ray", 0.0, 3.0),
        (InjectionKind.KILL, "cluster", 0.0, 0.3),
        (InjectionKind.KILL, "standby", 0.0, None),
        (InjectionKind.REWRITE, "ledger", 0.0, None),  # nothing stands still for it
    ],
)
def test_recovery_is_the_first_work_after_a_blow(
    tmp_path: Path, kind: InjectionKind, target: str, length: float, seconds: float | None
) -> None:
    result = read(tmp_path, *STORY).recovery(struck(kind, target, at=10.0, length=length))
    assert result == (None if seconds is None else pytest.approx(seconds))


def test_work_that_never_goes_on_has_no_recovery(tmp_path: Path) -> None:
    evidence = read(tmp_path, *STORY, torn='{"t": 99, "ev": "com')
    assert evidence.recovery(struck(InjectionKind.KILL, "worker", at=14.5)) is None
    assert evidence.recovery(struck(InjectionKind.KILL, "leader", at=14.5)) is None
    assert evidence.recovery(struck(InjectionKind.KILL, "ledger", at=14.5)) is None


def test_a_commit_behind_a_newer_epoch_of_its_shard_is_found(tmp_path: Path) -> None:
    assert read(tmp_path, *STORY).void == []
    late = read(tmp_path, *STORY, commit(15.0, 1, "e1")).void
    assert len(late) == 1
    assert "shard 1 committed under epoch e1" in late[0]


def test_acknowledged_jobs_and_deletions_that_are_missing_are_lost(tmp_path: Path) -> None:
    evidence = read(
        tmp_path,
        job(1.0, 1, "ns/a"),
        job(1.0, 2, "ns/b"),
        job(2.0, 2, "ns/b"),
        job_gone(3.0, 2),
        job(4.0, 3, "ns/b"),
    )
    assert list(evidence.lost(["ns/a", "ns/b"], ["ns/b"])) == []
    lost = list(evidence.lost(["ns/a", "ns/c"], ["ns/a", "ns/z"]))
    assert lost == [
        "job ns/c was acknowledged and is not in the ledger",
        "the deletion of job ns/a was acknowledged and is not in the ledger",
    ]
    assert evidence.jobs == {"ns/a": 1, "ns/b": 2}
