"""The double's books: the same accounts as the server's records, as plain Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from shared.ledger import records
from shared.ledger.protocol import JobRecord, Nomination, PutPartition, QueueRecord, TaskRecord
from shared.ledger.records import ALLOCATABLE, NOMINATED, UNLIMITED, USED, WIDTH
from shared.messages import Group
from shared.slots import PODS

Requests = list[tuple[int, int, int]]
"""(slot, amount, what a node offers without saying so)."""


@dataclass(slots=True)
class NodeBook:
    version: int = 0
    spec_version: int = 0
    slots: list[list[int]] = field(default_factory=list)

    def clone(self) -> NodeBook:
        return NodeBook(self.version, self.spec_version, [list(slot) for slot in self.slots])

    def packed(self) -> bytes:
        flat = [amount for slot in self.slots for amount in slot]
        return records.pack_node(self.version, self.spec_version, flat)

    def grow(self, count: int, implied: Callable[[int], int]) -> None:
        for slot in range(len(self.slots), count):
            self.slots.append([implied(slot), *[0] * (WIDTH - 1)])

    def set_part(self, part: int, amounts: dict[int, int], default: Callable[[int], int]) -> None:
        for slot, amount in enumerate(self.slots):
            amount[part] = amounts.get(slot, default(slot))


@dataclass(slots=True)
class QueueBook:
    parent: int
    used: list[int] = field(default_factory=list)
    capability: list[int] = field(default_factory=list)
    guarantee: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)

    def clone(self) -> QueueBook:
        lists = (self.used, self.capability, self.guarantee, self.leaving)
        return QueueBook(self.parent, *map(list, lists))

    def grow(self, count: int) -> None:
        missing = count - len(self.used)
        if missing > 0:
            self.used += [0] * missing
            self.capability += [UNLIMITED] * missing
            self.guarantee += [0] * missing
            self.leaving += [0] * missing

    def record(self) -> QueueRecord:
        return QueueRecord(
            self.parent,
            {slot: amount for slot, amount in enumerate(self.used) if amount},
            {slot: limit for slot, limit in enumerate(self.capability) if limit != UNLIMITED},
            {slot: amount for slot, amount in enumerate(self.guarantee) if amount},
            {slot: amount for slot, amount in enumerate(self.leaving) if amount},
        )


@dataclass(slots=True)
class JobBook:
    spec_version: int
    qid: int
    groups: list[Group]
    gone: bool = False
    top: int = 0

    def clone(self) -> JobBook:
        return replace(self, groups=list(self.groups))

    def record(self) -> JobRecord:
        return JobRecord(self.spec_version, self.qid, self.gone, list(self.groups), self.top)

    def chain(self, group: int) -> Iterator[int]:
        """A group and those above it."""
        while group >= 0:
            yield group
            group = self.groups[group].parent

    def add(self, group: int, count: int) -> None:
        for index in self.chain(group):
            known = self.groups[index]
            self.groups[index] = replace(known, held=known.held + count)


@dataclass(slots=True)
class Books:
    """Everything that lasts."""

    nodes: dict[int, NodeBook] = field(default_factory=dict)
    queues: dict[int, QueueBook] = field(default_factory=dict)
    jobs: dict[int, JobBook] = field(default_factory=dict)
    tasks: dict[tuple[int, int], TaskRecord] = field(default_factory=dict)
    nominations: dict[int, Nomination] = field(default_factory=dict)
    classes: dict[int, Requests] = field(default_factory=dict)
    class_specs: dict[int, bytes] = field(default_factory=dict)
    node_specs: dict[int, bytes] = field(default_factory=dict)
    queue_specs: dict[int, bytes] = field(default_factory=dict)
    job_specs: dict[int, bytes] = field(default_factory=dict)
    implied: dict[int, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    partition: PutPartition | None = None


K = TypeVar("K")
V = TypeVar("V")


class Layer(Generic[K, V]):
    """Changes over a dict that are kept aside until the batch ends.

    ``None`` stands for "not there". Values are replaced or cloned by ``own``, never shared.
    """

    def __init__(self, below: dict[K, V], clone: Callable[[V], V] = copy) -> None:
        self._below = below
        self._clone = clone
        self._above: dict[K, V | None] = {}
        self.dirty: set[K] = set()

    def get(self, key: K) -> V | None:
        if key in self._above:
            return self._above[key]
        return self._below.get(key)

    def own(self, key: K) -> V | None:
        """A value that may be changed in place."""
        if key not in self._above and key in self._below:
            self._above[key] = self._clone(self._below[key])
        return self._above.get(key)

    def put(self, key: K, value: V | None) -> None:
        self._above[key] = value
        self.dirty.add(key)

    def all(self) -> Iterator[tuple[K, V]]:
        """Everything that is there."""
        for key in self._below.keys() | self._above.keys():
            value = self.get(key)
            if value is not None:
                yield key, value

    def opened(self) -> Iterator[tuple[K, V | None]]:
        """What may have been changed in place."""
        return iter(self._above.items())

    def write(self) -> None:
        for key in self.dirty:
            value = self.get(key)
            if value is None:
                self._below.pop(key, None)
            else:
                self._below[key] = value


class Overlay:
    """The books as one batch sees and changes them; ``write`` makes the changes last."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.nodes = Layer(books.nodes, NodeBook.clone)
        self.queues = Layer(books.queues, QueueBook.clone)
        self.jobs = Layer(books.jobs, JobBook.clone)
        self.tasks = Layer(books.tasks)
        self.nominations = Layer(books.nominations)
        self.domains = Layer(books.domains)
        self.implied = dict(books.implied)
        self.classes = dict(books.classes)
        self._stamped: set[int] = set()

    # --- nodes ------------------------------------------------------------------------------

    def begin(self) -> None:
        """The next statement, item or operation: it moves the version of each row once."""
        self._stamped.clear()

    def touched(self, row: int) -> bool:
        return row in self._stamped

    def touch(self, row: int) -> None:
        node = self.nodes.own(row)
        if node is not None and row not in self._stamped:
            self._stamped.add(row)
            node.version += 1

    def untouch(self, row: int) -> None:
        node = self.nodes.own(row)
        if node is not None and row in self._stamped:
            self._stamped.remove(row)
            node.version -= 1

    def implied_of(self, slot: int) -> int:
        return self.implied.get(slot, 0)

    def add_to_node(self, row: int, cid: int, part: int, sign: int) -> None:
        node = self.nodes.own(row)
        assert node is not None, f"row {row} holds tasks and has no record"
        requests = [r for r in self.classes[cid] if r[1] > 0]
        node.grow(1 + max((slot for slot, _, _ in requests), default=-1), self.implied_of)
        for slot, amount, implied in requests:
            values = node.slots[slot]
            values[part] += sign * amount
            if sign > 0 and part in (USED, NOMINATED):
                values[ALLOCATABLE] = max(values[ALLOCATABLE], implied)

    # --- queues -----------------------------------------------------------------------------

    def chain(self, qid: int) -> Iterator[tuple[int, QueueBook]]:
        """A queue and its ancestors, as far as they are known."""
        while qid >= 0:
            queue = self.queues.own(qid)
            if queue is None:
                return
            yield qid, queue
            qid = queue.parent

    def best_effort(self, cid: int) -> bool:
        """Whether a known class asks for nothing but a place among a node's pods: its members count
        for their groups from the time they are stored, placed or not."""
        known = self.classes.get(cid)
        return known is not None and all(slot == PODS for slot, _, _ in known)

    def charge(self, qid: int, cid: int, count: int) -> int | None:
        """Add requests to a queue and its ancestors; the first that is then over its limit."""
        over: int | None = None
        requests = [r for r in self.classes[cid] if r[1] > 0]
        for above, queue in self.chain(qid):
            queue.grow(1 + max((slot for slot, _, _ in requests), default=-1))
            for slot, amount, _ in requests:
                queue.used[slot] += count * amount
                limit = queue.capability[slot]
                if over is None and limit != UNLIMITED and queue.used[slot] > limit:
                    over = above
        return over

    def leave(self, qid: int, cid: int, count: int) -> None:
        """So many requests begin to leave a queue and its ancestors; below 0: have left."""
        requests = [r for r in self.classes[cid] if r[1] > 0]
        for above, queue in self.chain(qid):
            queue.grow(1 + max((slot for slot, _, _ in requests), default=-1))
            self.queues.dirty.add(above)
            for slot, amount, _ in requests:
                queue.leaving[slot] += count * amount

    def mark_queues(self, qid: int) -> None:
        self.queues.dirty.update(above for above, _ in self.chain(qid))

    # --- nominations ------------------------------------------------------------------------

    def shift_nomination(self, jid: int, sign: int, mark: Callable[[int], None]) -> None:
        held = self.nominations.get(jid)
        for run in held.runs if held else ():
            for row in run.rows:
                self.add_to_node(row, run.cid, NOMINATED, sign)
                mark(row)

    def drop_nomination(self, jid: int) -> bool:
        """Give a job's nominations back for good. False where it had none."""
        if self.nominations.get(jid) is None:
            return False
        self.shift_nomination(jid, -1, self.touch)
        self.nominations.put(jid, None)
        return True

    # --- the end ----------------------------------------------------------------------------

    def moved_rows(self) -> list[int]:
        """Rows whose version moved; they become dirty."""
        for row, node in self.nodes.opened():
            before = self.books.nodes.get(row)
            if node is not None and (before is None or before.version != node.version):
                self.nodes.dirty.add(row)
        return sorted(self.nodes.dirty)

    def write(self) -> None:
        self.moved_rows()
        for layer in (self.nodes, self.queues, self.jobs, self.tasks):
            layer.write()
        self.nominations.write()
        self.domains.write()
        self.books.implied = self.implied
        self.books.classes = self.classes
