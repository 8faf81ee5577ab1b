"""The writer of the history: what becomes of log entries, and of a file that a kill has torn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.history.events import LedgerEvents
from coordinator.cluster.history.file import HistoryFile, LogFollower
from laboratory.checker.check import check
from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropNode,
    IntakeOp,
    Observe,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import (
    CommitEntry,
    Committed,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    StatusEntry,
)
from shared.ledger.errors import LedgerUnavailable
from shared.messages.messages import (
    ALLOCATE,
    NOMINATE,
    Epoch,
    Group,
    Rows,
    Run,
    StatusItem,
    TaskState,
    Verdict,
)
from shared.model.model import Job, Node, Queue, Role, TaskClass
from shared.records.specs import encode_class, encode_node, encode_queue
from shared.records.specs_jobs import encode_job
from tests.examples import examples

EPOCH = Epoch(1, "abc")
NOTHING = Rows([], [])


def intake(number: int, *ops: IntakeOp, dropped: list[int] | None = None) -> IntakeEntry:
    entry_id = f"1700000000{number:03}-0"
    return IntakeEntry(entry_id, "coordinator", EPOCH, number, list(ops), NOTHING, dropped or [])


def put_class(cid: int, *requests: tuple[int, int, int]) -> PutClass:
    spec = TaskClass(requests=tuple((slot, amount) for slot, amount, _ in requests))
    return PutClass(cid, list(requests), encode_class(spec))


def put_node(row: int) -> PutNode:
    node = Node(row=row, name=f"n{row}", allocatable=((2, 10), (3, 2000)), spec=1)
    return PutNode(row, list(node.allocatable), 1, encode_node(node))


def put_job(jid: int, count: int, minimum: int) -> PutJob:
    groups = (Group(-1, minimum),)
    role = Role(name="w", cid=1, first=0, count=count)
    job = Job(jid, "default", f"j{jid}", "Job", f"u{jid}", "q", 0.0, groups=groups, roles=(role,))
    return PutJob(jid, 1, 1, list(groups), encode_job(job))


def run(kind: int, places: dict[int, int], level: int) -> Run:
    none = [0] * len(places)
    levels = [level] * len(places)
    return Run(kind, 1, 0, list(places), list(places.values()), none, none, levels)


def test_a_class_that_is_dropped_has_an_event() -> None:
    """Resource names that nothing uses any more take their classes along: no history could be
    written from then on (seed 396)."""
    entry = intake(1, put_class(1, (2, 1, 0)), DropClass(1), DropClass(2), put_node(0))
    events = LedgerEvents().of(entry)
    assert [event["ev"] for event in events] == ["class", "class_gone", "node"]
    assert events[1]["cids"] == [1, 2]


def story() -> list[LogEntry]:
    """One entry of each kind, and everything that an entry may carry."""
    queue = Queue(qid=1, name="q", parent=0)
    committed = Committed(
        jid=1,
        verdict=Verdict.RECHECKED,
        priority=0,
        core=[run(ALLOCATE, {0: 0, 1: 0}, 1)],
        tail=[run(ALLOCATE, {2: 1}, 2), run(NOMINATE, {3: 1}, 3)],
        dropped=[],
    )
    return [
        EpochEntry("1700000000000-0", "coordinator", EPOCH),
        intake(
            1,
            put_class(1, (2, 1, 0), (3, 1000, 0)),
            put_class(2, (2, 1, 0)),
            put_node(0),
            put_node(1),
            PutQueue(0, -1, None, encode_queue(Queue(qid=0, name="root"))),
            PutQueue(1, 0, [(3, 4000)], encode_queue(queue)),
            PutPartition(1, {0: [0], 1: [1]}),
        ),
        intake(2, Observe(1, [(2, 1)]), PutObject("other", b"x"), PutObject("old", None)),
        intake(3, put_job(1, 4, 2), put_job(2, 1, 1)),
        CommitEntry("1700000000004-0", "0", EPOCH, 1, [committed], [(2, Verdict.FIT)], NOTHING),
        StatusEntry(
            "1700000000005-0",
            "coordinator",
            EPOCH,
            4,
            [StatusItem(TaskState.BOUND, 1, [0, 1], [0, 0])],
            [1],
            NOTHING,
        ),
        intake(6, DropJob(2), DropNode(1), dropped=[2]),
        intake(7),
    ]


def bound() -> ClusterEvent:
    tasks, nodes = ["1.0", "1.1"], ["n0", "n0"]
    return ClusterEvent(1700000000.0045, "bind", tasks, nodes, ["u1", "u1"], ["OK", "OK"])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_events_of_every_kind() -> None:
    ledger_events = LedgerEvents()
    events = [event for entry in story() for event in ledger_events.of(entry)]
    kinds = [(event["ev"], event.get("more", 0)) for event in events]
    assert kinds == [
        ("epoch", 0),
        ("class", 3),
        ("node", 2),
        ("queue", 1),
        ("partition", 0),
        ("observe", 1),
        ("object", 0),
        ("job", 0),
        ("commit", 1),
        ("refusal", 0),
        ("status", 1),
        ("expired", 0),
        ("job_gone", 2),
        ("node_gone", 1),
        ("expired", 0),
        ("object", 0),
    ]
    by_kind = {event["ev"]: event for event in events}
    head = {"src": "ledger", "n": 5, "part": 1, "writer": "0", "epoch": "1:abc", "seq": 1}
    assert by_kind["refusal"] == head | {
        "t": 1700000000.004,
        "id": "1700000000004-0",
        "ev": "refusal",
        "shard": "0",
        "refused": [[2, "FIT"]],
    }
    assert by_kind["commit"]["statements"] == [
        {
            "jid": 1,
            "verdict": "RECHECKED",
            "alloc": [(0, 0, 1, 1), (1, 0, 1, 1), (2, 1, 1, 2)],
            "tail": 1,
            "nominate": [(3, 1, 1, 3)],
            "dropped": [],
        }
    ]
    assert [c["best_effort"] for c in by_kind["class"]["classes"]] == [False, True]
    assert by_kind["job"]["jobs"][0] == {
        "jid": 1,
        "qid": 1,
        "spec": 1,
        "key": "default/j1",
        "uid": "u1",
        "queue": "q",
        "groups": [(-1, 2)],
        "roles": [(1, 0, 4, 0)],
    }
    assert by_kind["status"]["items"] == [["BOUND", 1, [0, 1], [0, 0]]]


def test_the_checker_reads_what_the_writer_writes(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "h.jsonl")
    for entry in story():
        if isinstance(entry, StatusEntry):
            history.cluster_events([bound()])
        history.ledger_entries([entry])
    history.close()
    report = check(tmp_path / "h.jsonl")
    assert report.violations == ()
    table = report.summary.table()
    assert table["tasks"] == {"submitted": 5, "bound": 2, "bound_twice": 0, "finished": 0}
    assert table["levels"] == {"L1": 2, "L2": 1, "L3": 1, "L4": 0}
    assert table["statements"]["rechecked"] == 1
    assert table["statements"]["conflicts_true"] == 1
    assert table["gangs_across_shards"] == 1


def test_a_new_file_starts_from_the_beginning_of_the_log(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "new" / "h.jsonl")
    assert history.position == "0"
    history.close()


@pytest.mark.parametrize("block", [1, 7, 64, 2**16])
def test_a_file_cut_anywhere_is_taken_up_where_it_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """For every length a kill may leave: nothing whole is lost, nothing is told twice."""
    monkeypatch.setattr("coordinator.cluster.history.file._BLOCK", block)
    path = tmp_path / "h.jsonl"
    entries = story()
    history = HistoryFile(path)
    history.ledger_entries(entries[:3])
    history.cluster_events([bound()])
    history.ledger_entries(entries[3:6])
    history.close()
    whole = path.read_bytes()
    step = 97 if block == 1 else 13
    for length in [*range(0, len(whole), step), len(whole)]:
        path.write_bytes(whole[:length])
        history = HistoryFile(path)
        ids = [entry.id for entry in entries]
        result = ids.index(history.position) + 1 if history.position != "0" else 0
        history.ledger_entries(entries[result:])
        history.cluster_events([bound()])
        history.close()
        text_lines = lines(path)
        observed = [(e["id"], e.get("more", 0)) for e in text_lines if e["src"] == "ledger"]
        expected = [
            (event["id"], event.get("more", 0))
            for entry in entries
            for event in LedgerEvents().of(entry)
        ]
        assert observed == expected
        numbers = [e["n"] for e in text_lines if e["src"] == "cluster"]
        assert numbers == list(range(1, len(numbers) + 1))


@settings(max_examples=examples(50))
@given(st.lists(st.booleans(), max_size=12), st.data())
def test_reopening_at_any_time_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, sources: list[bool], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("h") / "h.jsonl"
    history = HistoryFile(path)
    ids, count = ["0"], 0
    for number, from_ledger in enumerate(sources, 1):
        if data.draw(st.booleans()):
            history.close()
            before = path.read_bytes()
            history = HistoryFile(path)
            assert path.read_bytes() == before
        assert history.position == ids[-1]
        if from_ledger:
            entry = intake(number, PutObject("a", b""))
            history.ledger_entries([entry])
            ids.append(entry.id)
        else:
            history.cluster_events([bound()])
            count += 1
    history.close()
    text_lines = lines(path)
    assert [e["id"] for e in text_lines if e["src"] == "ledger"] == ids[1:]
    assert [e["n"] for e in text_lines if e["src"] == "cluster"] == list(range(1, count + 1))


class _Log:
    """A log that is away the first times it is asked."""

    def __init__(self, entries: list[LogEntry], *, away: int = 0) -> None:
        self.entries = entries
        self.away = away

    async def read_log(
        self, after: str, *, count: int = 512, block: float | None = None
    ) -> list[LogEntry]:
        if self.away:
            self.away -= 1
            raise LedgerUnavailable("away")
        return [entry for entry in self.entries if after == "0" or entry.id > after][:count]


async def test_the_follower_copies_everything_once(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "h.jsonl")
    entries: list[LogEntry] = [intake(i, PutObject(str(i), b"")) for i in range(1, 200)]
    follower = LogFollower(_Log(entries), history, unavailable=LedgerUnavailable)
    await follower.drain()
    await follower.drain()
    history.close()
    assert [e["keys"] for e in lines(tmp_path / "h.jsonl")] == [[str(i)] for i in range(1, 200)]


async def test_draining_a_ledger_that_is_away_is_an_error(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "h.jsonl")
    follower = LogFollower(_Log([], away=1), history, unavailable=LedgerUnavailable)
    with pytest.raises(LedgerUnavailable):
        await follower.drain()
    history.close()
