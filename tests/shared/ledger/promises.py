"""Promises 1 to 3 checked on a snapshot, by sums over tasks and nominations alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.records import unpack_node, unpack_thing
from shared.messages.messages import GUARD_GANG, CommitBatch, Group
from shared.units.slots import PODS
from shared.units.things import Things

Amounts = dict[int, dict[int, int]]
"""row or qid -> slot -> amount."""

HOLDS_NODE = (1, 2, 3, 4)
COUNTS_FOR_GANG = (1, 2, 3, 4, 5)


@dataclass
class Totals:
    """Expected totals of the records, added up from the tasks."""

    used: dict[tuple[int, int], int] = field(default_factory=Counter)
    releasing: dict[tuple[int, int], int] = field(default_factory=Counter)
    nominated: dict[tuple[int, int], int] = field(default_factory=Counter)
    queues: dict[tuple[int, int], int] = field(default_factory=Counter)
    leaving: dict[tuple[int, int], int] = field(default_factory=Counter)
    held: dict[tuple[int, int], int] = field(default_factory=Counter)
    things: dict[tuple[int, str, int, str], int] = field(default_factory=Counter)
    """(row, name, dimension, part) -> amount."""
    told: set[int] = field(default_factory=set)
    """Jobs with members that ask for nothing: how many those are, only who stored the job knows."""


def _above(parents: dict[int, int], start: int) -> list[int]:
    chain = []
    while start >= 0:
        chain.append(start)
        start = parents.get(start, -1)
    return chain


def add_up(
    snapshot: Snapshot,
    classes: dict[int, list[tuple[int, int, int]]],
    things: dict[int, list[ThingAsk]],
) -> Totals:
    totals = Totals()

    def take(row: int, cid: int, devices: Things, *parts: str) -> None:
        for name, amounts in (*((ask.name, ask.amounts) for ask in things.get(cid, ())), *devices):
            for dimension, amount in enumerate(amounts):
                for part in parts:
                    totals.things[row, name, dimension, part] += amount

    parents = {qid: queue.parent for qid, queue in snapshot.queues.items()}
    for jid, tasks in snapshot.tasks.items():
        job = snapshot.jobs[jid]
        groups = {i: group.parent for i, group in enumerate(job.groups)}
        for task in tasks.values():
            requests = classes.get(task.cid, [(0, 0, 0)])
            if not things.get(task.cid) and all(slot == PODS for slot, _, _ in requests):
                totals.told.add(jid)
            assert task.by < 0 or task.state == 4, "only what leaves is being evicted"
            if task.state in COUNTS_FOR_GANG and task.by < 0:
                for group in _above(groups, task.group):
                    totals.held[jid, group] += 1
            if task.state not in HOLDS_NODE:
                continue
            take(task.row, task.cid, task.devices, "used", *["releasing"] * (task.state == 4))
            for slot, amount, _ in classes[task.cid]:
                totals.used[task.row, slot] += amount
                totals.releasing[task.row, slot] += amount * (task.state == 4)
                for qid in _above(parents, job.qid):
                    totals.queues[qid, slot] += amount
                    totals.leaving[qid, slot] += amount * (task.state == 4)
    for nomination in snapshot.nominations.values():
        for run in nomination.runs:
            for row in run.rows:
                take(row, run.cid, run.devices, "nominated")
                for slot, amount, _ in classes[run.cid]:
                    totals.nominated[row, slot] += amount
    return totals


def check_records(snapshot: Snapshot, totals: Totals) -> None:
    """The records say what the tasks say."""
    for row, record in zip(snapshot.nodes.rows, snapshot.nodes.records, strict=True):
        _, _, flat = unpack_node(record)
        for slot in range(len(flat) // 5):
            _, used, _, releasing, nominated = flat[5 * slot : 5 * slot + 5]
            assert used == totals.used[row, slot], (row, slot)
            assert releasing == totals.releasing[row, slot], (row, slot)
            assert nominated == totals.nominated[row, slot], (row, slot)
    found_things: dict[tuple[int, str, int, str], int] = {}
    for row, name, record in snapshot.nodes.things:
        _, flat = unpack_thing(record)
        assert any(flat), f"{row}/{name} is kept although nobody has it"
        for dimension in range(len(flat) // 5):
            _, used, _, releasing, nominated = flat[5 * dimension : 5 * dimension + 5]
            for part, n in (("used", used), ("releasing", releasing), ("nominated", nominated)):
                if n:
                    found_things[row, name, dimension, part] = n
    assert found_things == {key: n for key, n in totals.things.items() if n}
    for qid, queue in snapshot.queues.items():
        results = {slot: n for (q, slot), n in totals.queues.items() if q == qid and n}
        assert queue.used == results, qid
        results = {slot: n for (q, slot), n in totals.leaving.items() if q == qid and n}
        assert queue.leaving == results, qid
    for jid, job in snapshot.jobs.items():
        for i, group in enumerate(job.groups):
            assert jid in totals.told or group.held == totals.held[jid, i], (jid, i)


def check_fit(
    before: Snapshot,
    after: Snapshot,
    implied: dict[int, int],
    things: dict[int, list[ThingAsk]],
) -> None:
    """No commit raised anything above what the node offers (it may have been above before)."""
    offers = {ask.name: ask.offers for asks in things.values() for ask in asks}
    earlier = {(row, name): unpack_thing(record)[1] for row, name, record in before.nodes.things}
    for row, name, record in after.nodes.things:
        _, flat = unpack_thing(record)
        was = earlier.get((row, name), [])
        was = was + [0] * (len(flat) - len(was))
        for at in range(len(flat) // 5):
            offer = offers[name][at] if name in offers else 0
            offered, used, observed, releasing, nominated = flat[5 * at : 5 * at + 5]
            _, used0, observed0, releasing0, nominated0 = was[5 * at : 5 * at + 5]
            now, then = used + observed, used0 + observed0
            assert now <= max(offered, offer, then), (row, name)
            future, past = now - releasing + nominated, then - releasing0 + nominated0
            assert future <= max(offered, offer, past), (row, name)
    old = dict(zip(before.nodes.rows, before.nodes.records, strict=True))
    for row, record in zip(after.nodes.rows, after.nodes.records, strict=True):
        _, _, flat = unpack_node(record)
        _, _, was = unpack_node(old[row])
        was += [0] * (len(flat) - len(was))
        for slot in range(len(flat) // 5):
            offered, used, observed, releasing, nominated = flat[5 * slot : 5 * slot + 5]
            _, used0, observed0, releasing0, nominated0 = was[5 * slot : 5 * slot + 5]
            capacity = max(offered, implied.get(slot, 0))
            now, then = used + observed, used0 + observed0
            assert now <= max(capacity, then), (row, slot)
            future, past = now - releasing + nominated, then - releasing0 + nominated0
            assert future <= max(capacity, past), (row, slot)


def check_limits(before: Snapshot, after: Snapshot) -> None:
    for qid, queue in after.queues.items():
        for slot, limit in queue.capability.items():
            now, then = queue.used.get(slot, 0), before.queues[qid].used.get(slot, 0)
            assert now <= max(limit, then), (qid, slot)


def check_gangs(before: Snapshot, after: Snapshot, batches: Sequence[object] = ()) -> None:
    """Statements of ``batches`` without the guard may have left jobs in part, those with a rest as
    many members as they say."""
    victims, rests = unguarded(batches, GUARD_GANG) | in_part(batches), _rests(batches)
    for jid, job in after.jobs.items():
        if jid in victims:
            continue
        old = before.jobs[jid].groups
        for i, group in enumerate(job.groups):
            if group.held > rests[jid] and not _has_minima(job.groups, i):
                assert old[i].held > 0 and not _has_minima(old, i), (jid, i)


def _has_minima(groups: Sequence[Group], index: int) -> bool:
    """Members in the lower 32 bits of the minimum, groups directly below in those above
    (docs/decisions/0065)."""
    held, minimum = groups[index].held, groups[index].minimum
    if held < minimum & 0xFFFF_FFFF:
        return False
    below = [i for i, group in enumerate(groups) if group.parent == index]
    return [_has_minima(groups, i) for i in below].count(True) >= minimum >> 32


def check_guarantees(before: Snapshot, after: Snapshot, victims: Collection[int] = ()) -> None:
    """Check that no queue was taken below its guarantee. ``victims``: as above, whose queues, and
    those above them, may lose it."""
    parents = {qid: queue.parent for qid, queue in after.queues.items()}
    robbed = {qid for jid in victims for qid in _above(parents, after.jobs[jid].qid)}
    for qid, queue in after.queues.items():
        old = before.queues[qid]
        if qid in robbed:
            continue
        for slot, guarantee in queue.guarantee.items():
            stays = queue.used.get(slot, 0) - queue.leaving.get(slot, 0)
            stayed = old.used.get(slot, 0) - old.leaving.get(slot, 0)
            assert stays >= min(guarantee, stayed), (qid, slot)


def unguarded(batches: Iterable[object], guard: int) -> set[int]:
    """Jobs of which these batches name victims without this guard."""
    commits = [batch for batch in batches if isinstance(batch, CommitBatch)]
    runs = (run for batch in commits for s in batch.statements for run in s.evictions)
    return {run.jid for run in runs if not run.guards & guard}


def _rests(batches: Iterable[object]) -> Counter[int]:
    """jid -> the most members that a guard of these batches lets stay below the minimum."""
    rests = Counter[int]()
    for batch in batches:
        for s in batch.statements if isinstance(batch, CommitBatch) else ():
            for run in s.evictions:
                rests[run.jid] = max(rests[run.jid], run.rest)
    return rests


def in_part(batches: Iterable[object]) -> set[int]:
    """Jobs that statements of these batches may leave below their minimum."""
    commits = [batch for batch in batches if isinstance(batch, CommitBatch)]
    return {s.jid for batch in commits for s in batch.statements if s.in_part}


class Live:
    """Promise 1 from the log alone: a task is bound again only after it was let go."""

    def __init__(self) -> None:
        self.bound: dict[int, set[int]] = defaultdict(set)
        self.bindings = 0
        """How many there ever were."""

    def bind(self, jid: int, tasks: list[int]) -> None:
        for tix in tasks:
            assert tix not in self.bound[jid], (jid, tix)
            self.bound[jid].add(tix)
            self.bindings += 1

    def unbind(self, jid: int, tasks: list[int]) -> None:
        self.bound[jid].difference_update(tasks)
