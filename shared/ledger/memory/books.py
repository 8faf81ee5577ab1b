"""The double's accounts: the server's records as plain Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.codec.packed import replace
from shared.ledger import records
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord, ThingAsk
from shared.ledger.records import ALLOCATABLE, NOMINATED, UNLIMITED, USED, WIDTH
from shared.messages.messages import Group
from shared.units.slots import PODS
from shared.units.things import Things, Vector

Requests = list[tuple[int, int, int]]
"""(slot, amount, what a node offers without saying so)."""
Named = tuple[int, str]
"""A thing: (row, name)."""


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
class ThingBook:
    """A named thing of a node; amounts by dimension, as those of a slot."""

    version: int = 0
    """The node's version at the last change of the thing."""
    amounts: list[list[int]] = field(default_factory=list)

    def clone(self) -> ThingBook:
        return ThingBook(self.version, [list(dimension) for dimension in self.amounts])

    def packed(self) -> bytes:
        flat = [amount for dimension in self.amounts for amount in dimension]
        return records.pack_thing(self.version, flat)

    def grow(self, dimensions: int) -> None:
        for _ in range(len(self.amounts), dimensions):
            self.amounts.append([0] * WIDTH)

    @property
    def idle(self) -> bool:
        """Whether nobody uses it and the node does not declare it, so that it has no record."""
        return not any(map(any, self.amounts))


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
class JobAccount:
    spec_version: int
    qid: int
    groups: list[Group]
    gone: bool = False
    top: int = 0

    def clone(self) -> JobAccount:
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
            before = self.groups[index]
            self.groups[index] = replace(before, held=before.held + count)


@dataclass(slots=True)
class Books:
    """Everything that survives a restart of the double."""

    nodes: dict[int, NodeBook] = field(default_factory=dict)
    queues: dict[int, QueueBook] = field(default_factory=dict)
    jobs: dict[int, JobAccount] = field(default_factory=dict)
    tasks: dict[tuple[int, int], TaskRecord] = field(default_factory=dict)
    nominations: dict[int, Nomination] = field(default_factory=dict)
    things: dict[Named, ThingBook] = field(default_factory=dict)
    classes: dict[int, Requests] = field(default_factory=dict)
    class_things: dict[int, list[ThingAsk]] = field(default_factory=dict)
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
    """Pending changes over a dict, applied when the batch ends.

    ``None`` stands for "deleted". Values are replaced or cloned by ``own``, never shared.
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
        """A private copy of a value, to be changed in place."""
        if key not in self._above and key in self._below:
            self._above[key] = self._clone(self._below[key])
        return self._above.get(key)

    def must_own(self, key: K) -> V:
        """:meth:`own` of a value that is there."""
        value = self.own(key)
        assert value is not None
        return value

    def put(self, key: K, value: V | None) -> None:
        self._above[key] = value
        self.dirty.add(key)

    def all(self) -> Iterator[tuple[K, V]]:
        """Every item, with the layer's changes applied."""
        for key in self._below.keys() | self._above.keys():
            value = self.get(key)
            if value is not None:
                yield key, value

    def opened(self) -> Iterator[tuple[K, V | None]]:
        """The items that may have been changed in place."""
        return iter(self._above.items())

    def write(self) -> None:
        for key in self.dirty:
            value = self.get(key)
            if value is None:
                self._below.pop(key, None)
            else:
                self._below[key] = value


class Overlay:
    """The accounts within one batch, with its pending changes; ``write`` applies them."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.nodes = Layer(books.nodes, NodeBook.clone)
        self.queues = Layer(books.queues, QueueBook.clone)
        self.jobs = Layer(books.jobs, JobAccount.clone)
        self.tasks = Layer(books.tasks)
        self.nominations = Layer(books.nominations)
        self.domains = Layer(books.domains)
        self.things = Layer(books.things, ThingBook.clone)
        self.implied = dict(books.implied)
        self.classes = dict(books.classes)
        self.class_things = dict(books.class_things)
        self._stamped: set[int] = set()

    # --- nodes ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the next statement, item or operation: it increments the version of each row at
        most once."""
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

    def add_to_node(
        self, row: int, cid: int, part: int, sign: int, *, devices: Things = ()
    ) -> None:
        node = self.nodes.own(row)
        assert node is not None, f"row {row} holds tasks and has no record"
        requests = [r for r in self.classes[cid] if r[1] > 0]
        node.grow(1 + max((slot for slot, _, _ in requests), default=-1), self.implied_of)
        for slot, amount, implied in requests:
            values = node.slots[slot]
            values[part] += sign * amount
            if sign > 0 and part in (USED, NOMINATED):
                values[ALLOCATABLE] = max(values[ALLOCATABLE], implied)
        own = [(ask.name, ask.amounts) for ask in self.class_things[cid]]
        for name, amounts in (*own, *devices):
            thing = self.own_thing(row, name, len(amounts))
            for dimension, amount in zip(thing.amounts, amounts, strict=False):
                dimension[part] += sign * amount

    # --- named things -----------------------------------------------------------------------

    def own_thing(self, row: int, name: str, dimensions: int) -> ThingBook:
        """A private copy of a named thing, to be changed in place."""
        thing = self.things.own((row, name))
        if thing is None:
            thing = ThingBook()
            self.things.put((row, name), thing)
        thing.grow(dimensions)
        return thing

    def set_thing(self, row: int, name: str, part: int, values: Vector) -> None:
        """One part of a thing (ALLOCATABLE, OBSERVED) in all its dimensions."""
        thing = self.own_thing(row, name, len(values))
        for at, dimension in enumerate(thing.amounts):
            dimension[part] = values[at] if at < len(values) else 0

    def moved_things(self) -> list[tuple[int, str, bytes]]:
        """(row, name, record) of the changed things, with the node's version of now. A thing that
        became idle is reported with its last record and forgotten."""
        changed: list[tuple[int, str, bytes]] = []
        for (row, name), thing in sorted(self.things.opened(), key=lambda item: item[0]):
            if thing is None:
                continue
            before, node = self.books.things.get((row, name)), self.nodes.get(row)
            if node is not None and not _same(before, thing):
                thing.version = node.version
                changed.append((row, name, thing.packed()))
                self.things.put((row, name), thing)
            if thing.idle:
                self.things.put((row, name), None)
        return changed

    def shown_things(self, dimensions_of: dict[Named, int]) -> list[tuple[int, str, bytes]]:
        """Current records of these things, also of those that nobody uses. ``dimensions_of``: how
        many dimensions an unused thing has. Call it after :meth:`moved_things`."""
        shown: list[tuple[int, str, bytes]] = []
        for (row, name), dimensions in dimensions_of.items():
            node = self.nodes.get(row)
            if node is not None:
                free = ThingBook(node.version, [[0] * WIDTH for _ in range(dimensions)])
                shown.append((row, name, (self.things.get((row, name)) or free).packed()))
        return shown

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
        """True where a known class requests only a pod slot: its members count for their groups
        from the time they are stored, placed or not."""
        requests = self.classes.get(cid)
        if self.class_things.get(cid):
            return False
        return requests is not None and all(slot == PODS for slot, _, _ in requests)

    def charge(self, qid: int, cid: int, count: int) -> int | None:
        """Add requests to a queue and its ancestors; returns the first that then exceeds its
        limit."""
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
        """Count these requests as leaving a queue and its ancestors; a negative count: as having
        left."""
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
        nomination = self.nominations.get(jid)
        for run in nomination.runs if nomination else ():
            for row in run.rows:
                self.add_to_node(row, run.cid, NOMINATED, sign, devices=run.devices)
                mark(row)

    def drop_nomination(self, jid: int) -> bool:
        """Remove a job's nominations. False where it had none."""
        if self.nominations.get(jid) is None:
            return False
        self.shift_nomination(jid, -1, self.touch)
        self.nominations.put(jid, None)
        return True

    # --- the end ----------------------------------------------------------------------------

    def moved_rows(self) -> list[int]:
        """Rows whose version rose; they become dirty."""
        for row, node in self.nodes.opened():
            before = self.books.nodes.get(row)
            if node is not None and (before is None or before.version != node.version):
                self.nodes.dirty.add(row)
        return sorted(self.nodes.dirty)

    def write(self) -> None:
        self.moved_rows()
        for layer in (self.nodes, self.queues, self.jobs, self.tasks, self.things):
            layer.write()
        self.nominations.write()
        self.domains.write()
        self.books.implied = self.implied
        self.books.classes = self.classes
        self.books.class_things = self.class_things


def _same(before: ThingBook | None, now: ThingBook) -> bool:
    return now.idle if before is None else before.amounts == now.amounts
