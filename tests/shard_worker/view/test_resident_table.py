"""The table of residents has of every task what the ledger has, wherever it began to follow."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shard_worker.view import job_columns, resident_table
from shard_worker.view.resident_table import ResidentTable
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import DropJob, PurgeJob, PutJob
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.errors import LedgerArgument
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import HOLDING, NOMINATE, Group, StatusItem, TaskState
from shared.units.things import Things
from tests.examples import examples
from tests.shared.ledger.evicting import evicting
from tests.shared.ledger.of_snapshot import residents_of
from tests.shared.ledger.support import (
    LEAF,
    OTHER,
    SMALL,
    Desk,
    cluster,
    job,
    node,
    run,
    some_victims,
    statement,
)

S = TaskState
ROWS, TASKS = 5, 6
Told = tuple[int, int, int, Things]
"""State, row, class, devices; all but the state only of what holds a node."""


def by_the_ledger(snapshot: Snapshot) -> dict[tuple[int, int], Told]:
    """Tasks in the ledger that differ from never placed ones."""
    return {
        (jid, tix): (task.state, task.row, task.cid, task.devices)
        if task.state in HOLDING
        else (task.state, -1, -1, ())
        for jid, tasks in snapshot.tasks.items()
        for tix, task in tasks.items()
        if task.state != S.PENDING
    }


def by_the_table(table: ResidentTable) -> dict[tuple[int, int], Told]:
    results: dict[tuple[int, int], Told] = {}
    columns = [table.column(name).tolist() for name in ("jid", "tix", "state", "row", "cid")]
    jobs = {jid: table.job(jid) for jid in table.jids()}
    for jid, tix, state, row, cid in zip(*columns, strict=True):
        if state != S.PENDING:
            assert (jid, tix) not in results, "a task has one line"
            report = jobs[jid]
            assert report is not None
            results[jid, tix] = state, row, cid if row >= 0 else -1, report.devices.get(tix, ())
    return results


def check(table: ResidentTable, snapshot: Snapshot) -> None:
    """The table against what a dict of all tasks says."""
    truth = by_the_ledger(snapshot)
    jobs = {jid: table.job(jid) for jid in table.jids()}
    assert set(jobs) == set(snapshot.jobs)
    for jid, report in jobs.items():
        assert report is not None
        assert report.spec == snapshot.job_specs[jid]
        assert report.gone == snapshot.jobs[jid].gone
        mine = {tix: t for (owner, tix), t in truth.items() if owner == jid}
        states = {
            tix: (state, report.rows[tix]) for tix, state in enumerate(report.states) if state
        }
        assert states == {tix: (state, row) for tix, (state, row, *_) in mine.items()}
    assert by_the_table(table) == truth
    for row in range(ROWS + 1):
        there = {jid for (jid, _), (_, at, *_) in truth.items() if at == row}
        assert table.jids_on(row) == sorted(there)
    expected = (S.BOUND, S.RUNNING)
    counts = [0] * ROWS
    for state, row, *_ in truth.values():
        counts[row] += state in expected
    assert table.counts(expected, ROWS).tolist() == counts


@dataclass
class TableFollower:
    """A worker that began in the middle: its snapshot may be newer than the log that it reads."""

    table: ResidentTable
    log_id: str

    def follow(self, ledger: MemoryLedger, count: int) -> bool:
        entries = at_once(ledger.read_log(self.log_id, count=count))
        self.table.apply(entries, now=7.0)
        self.log_id = entries[-1].id if entries else self.log_id
        return bool(entries)


@dataclass
class TableStory:
    """Random jobs, placements, evictions, ends and adoptions in a ledger in memory."""

    draw: random.Random
    desk: Desk = field(init=False)
    ledger: MemoryLedger = field(init=False)
    next_job: int = 0

    def __post_init__(self) -> None:
        self.ledger = MemoryLedger(random.Random(1))
        self.desk = Desk(self.ledger)
        at_once(self.desk.open("1"))
        at_once(self.desk.store(*cluster(ROWS, 80_000)))
        shared = (("gpu/0", (9, 10**6)),)
        at_once(self.desk.store(*(node(row, 80_000, things=shared) for row in range(ROWS))))
        self.new_jobs()

    def now(self) -> Snapshot:
        return at_once(self.ledger.snapshot())

    def new_jobs(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            jid = self.next_job
            self.next_job += self.draw.choice((1, 1, 2, 7))
            minimum = Group(-1, self.draw.choice((0, 1)))
            at_once(self.desk.store(job(jid, minimum, qid=self.draw.choice((LEAF, OTHER)))))

    def some_job(self) -> int:
        return self.draw.choice(sorted(self.now().jobs) or [0])

    def some_tasks(self) -> tuple[list[int], list[int]]:
        size = self.draw.choice((1, 1, 2, TASKS, 40))
        tasks = self.draw.sample(range(max(size, TASKS)), size)
        return tasks, [self.draw.randrange(ROWS) for _ in tasks]

    def some_devices(self) -> Things:
        """Devices with amounts that hardly any other task has."""
        if self.draw.random() < 0.5:
            return ()
        return (("gpu/0", (1, self.draw.randrange(1, 99))),)

    def place(self) -> None:
        jid, now = self.some_job(), self.now()
        if jid in now.jobs:
            kinds = {"kind": NOMINATE} if self.draw.random() < 0.1 else {}
            tasks, rows = self.some_tasks()
            placed = run(tasks, rows, version=10**6, **kinds)
            placed = replace(placed, devices=self.some_devices())
            core, tail = ((placed,), ()) if self.draw.random() < 0.7 else ((), (placed,))
            new_statement = statement(jid, *core, tail=tail, qid=now.jobs[jid].qid, expiry=9e9)
            at_once(self.desk.commit(new_statement, writer=self.draw.choice(("0", "1"))))

    def evict(self) -> None:
        now = self.now()
        able = [jid for jid, record in now.jobs.items() if record.qid == LEAF and not record.gone]
        victims = some_victims(self.draw, now)
        if victims and able:
            plain = [replace(run, guards=0) for run in victims]
            at_once(self.desk.commit(evicting(*plain, by=self.draw.choice(able))))

    def report(self) -> None:
        now = self.now()
        jid = self.draw.choice(sorted(now.tasks) or [0])
        there = now.tasks.get(jid, {})
        tasks = self.draw.sample(sorted(there), min(len(there), self.draw.choice((1, 2, 9))))
        if tasks:
            state = self.draw.choice(tuple(TaskState))
            item = StatusItem(state, jid, tasks, [there[tix].row for tix in tasks])
            at_once(self.desk.record(item))

    def adopt(self) -> None:
        tasks, rows = self.some_tasks()
        state = self.draw.choice((S.BOUND, S.RUNNING, S.RELEASING))
        cid, devices = self.draw.choice((SMALL, 2)), self.some_devices()
        at_once(self.desk.record(StatusItem(state, self.some_job(), tasks, rows, cid, 0, devices)))

    def change(self) -> None:
        jid, now = self.some_job(), self.now()
        if jid in now.jobs and not now.jobs[jid].gone:
            spec = b"changed-%d" % self.draw.randrange(9) * self.draw.choice((1, 30))
            record = now.jobs[jid]
            put = PutJob(jid, record.qid, record.spec_version, [Group(-1, 0)], spec)
            at_once(self.desk.store(put))

    def drop(self) -> None:
        at_once(self.desk.store(DropJob(self.some_job())))

    def purge(self) -> None:
        at_once(self.desk.store(PurgeJob(self.some_job())))

    def end(self) -> None:
        """A job is deleted, what it holds ends, and it is purged."""
        jid, now = self.some_job(), self.now()
        at_once(self.desk.store(DropJob(jid)))
        for tix, task in now.tasks.get(jid, {}).items():
            at_once(self.desk.record(StatusItem(S.FAILED, jid, [tix], [task.row])))
        at_once(self.desk.store(PurgeJob(jid)))

    def step(self) -> None:
        """Take a random step; one that the ledger refuses has no effect."""
        steps = (
            self.place,
            self.place,
            self.place,
            self.evict,
            self.evict,
            self.report,
            self.report,
            self.report,
            self.adopt,
            self.change,
            self.drop,
            self.purge,
            self.end,
            self.new_jobs,
        )
        with suppress(LedgerArgument):
            self.draw.choice(steps)()


def begun(draw: random.Random, before: Snapshot, after: Snapshot) -> TableFollower:
    """A follower whose snapshot was read while writers went on: some parts of it are newer than
    the log position that it goes on from."""
    newer = {jid for jid in {*before.jobs, *after.jobs} if draw.random() < 0.5}

    def torn(old: dict[int, object], new: dict[int, object]) -> dict[int, object]:
        unchanged = {jid: value for jid, value in old.items() if jid not in newer}
        return unchanged | {jid: value for jid, value in new.items() if jid in newer}

    table = ResidentTable()
    table.load(
        residents_of(
            replace(
                before,
                jobs=torn(dict(before.jobs), dict(after.jobs)),  # type: ignore[arg-type]
                job_specs=torn(dict(before.job_specs), dict(after.job_specs)),  # type: ignore[arg-type]
                tasks=torn(dict(before.tasks), dict(after.tasks)),  # type: ignore[arg-type]
            )
        )
    )
    return TableFollower(table, before.log_id)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
@example(0)
def test_residents_equal_the_ledgers_tasks(seed: int) -> None:
    draw = random.Random(seed)
    story = TableStory(draw)
    first = ResidentTable()
    first.load(residents_of(story.now()))
    followers = [TableFollower(first, story.now().log_id)]
    earlier = story.now()
    for _ in range(40):
        story.step()
        if draw.random() < 0.1:
            earlier = story.now()
        if draw.random() < 0.1:
            followers.append(begun(draw, earlier, story.now()))
        for follower in followers:
            if draw.random() < 0.3:
                follower.follow(story.ledger, draw.choice((1, 3, 1000)))
                follower.table.jids_on(draw.randrange(ROWS))
    for follower in followers:
        while follower.follow(story.ledger, draw.choice((2, 1000))):
            pass
        check(follower.table, story.now())


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32))
def test_residents_survive_frequent_packing_of_columns(seed: int) -> None:
    """The same with columns that are packed again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resident_table, "_SPARE", 2)
        patch.setattr(resident_table, "FEW_MOVED", 1)
        patch.setattr(resident_table, "_FEW_COMBINATIONS", 2)
        patch.setattr(job_columns, "_WASTE", 8)
        test_residents_equal_the_ledgers_tasks.hypothesis.inner_test(seed)  # type: ignore[attr-defined]


def test_packing_keeps_the_columns_small() -> None:
    """A job that grows and a stream of jobs that come and go leave nothing behind."""
    story = TableStory(random.Random(3))
    table = ResidentTable()
    table.load(residents_of(story.now()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resident_table, "_SPARE", 8)
        patch.setattr(job_columns, "_WASTE", 64)
        log_id = story.now().log_id
        for jid in range(1000, 1300):
            desk = story.desk
            at_once(desk.store(job(jid, Group(-1, 0))))
            at_once(desk.commit(statement(jid, run([0], [jid % ROWS], version=10**6))))
            at_once(desk.record(StatusItem(S.SUCCEEDED, jid, [0], [jid % ROWS])))
            at_once(desk.store(DropJob(jid), PurgeJob(jid)))
            entries = at_once(story.ledger.read_log(log_id))
            table.apply(entries)
            log_id = entries[-1].id
    check(table, story.now())
    assert table.count <= 32 and table.jobs.count <= 64


def test_jobs_on_nodes_are_told_by_queue() -> None:
    story = TableStory(random.Random(0))
    table = ResidentTable()
    for jid, qid in ((500, LEAF), (501, OTHER), (502, LEAF)):
        at_once(story.desk.store(replace(job(jid, Group(-1, 0)), qid=qid)))
        if jid != 502:
            by = statement(jid, run([0], [0], version=10**6), qid=qid)
            at_once(story.desk.commit(by))
    table.load(residents_of(story.now()))
    mine = {500, 501, 502}
    assert mine.intersection(table.jids_on_nodes(LEAF)) == {500, 501}
    assert mine.intersection(table.jids_on_nodes(LEAF, True)) == {500}
    assert mine.intersection(table.jids_on_nodes(LEAF, False)) == {501}


def test_a_running_task_has_its_start_time() -> None:
    story = TableStory(random.Random(0))
    table = ResidentTable()
    table.load(residents_of(story.now()))
    log_id, desk = story.now().log_id, story.desk
    at_once(desk.store(job(500, Group(-1, 0))))
    at_once(desk.commit(statement(500, run([0, 1], [0, 1], version=10**6))))
    table.apply(at_once(story.ledger.read_log(log_id)), now=3.0)
    log_id = at_once(story.ledger.log_tail())
    at_once(desk.record(StatusItem(S.RUNNING, 500, [1], [1])))
    table.apply(at_once(story.ledger.read_log(log_id)), now=9.0)
    job_item = table.job(500)
    assert job_item is not None and job_item.started == {1: 9.0}
