"""The queues of this scheduler's node pool: those of others are known, and nothing counts in them.

A queue is a number with totals, and a record of KAI's that says in which pool it is. The record may
change its pool at any time; the jobs of a queue that leaves wait without one.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.order.order import Order
from shared.model.kai import KaiQueue
from shared.model.model import Queue, WorldObject


class QueuesOfPool:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._pool = order.session.eligibility.pool
        self._queues: dict[str, Queue] = {}
        """All of them, where there is a pool."""
        self.outside: dict[str, KaiQueue] = {}
        """The records of those that are in another pool."""

    def put(self, queues: Iterable[Queue], objects: Iterable[WorldObject]) -> None:
        """Take queues, and objects that rules read, among them the records of queues."""
        order, objects = self._order, list(objects)
        if self._pool is None:
            self._put_all(queues, objects)
            return
        records = [value for value in objects if isinstance(value, KaiQueue)]
        for record in records:
            self._judge(record)
        for queue in queues:
            self._queues[queue.name] = queue
            if queue.name not in self.outside:
                order.put_queue(queue)
        for value in objects:
            if not (isinstance(value, KaiQueue) and value.name in self.outside):
                order.put_object(value)
        for record in records:
            self._move(record)

    def _put_all(self, queues: Iterable[Queue], objects: Iterable[WorldObject]) -> None:
        for queue in queues:
            self._order.put_queue(queue)
        for value in objects:
            self._order.put_object(value)

    def _judge(self, record: KaiQueue) -> None:
        assert self._pool is not None
        if self._pool.has(dict(record.labels)):
            self.outside.pop(record.name, None)
        else:
            self.outside[record.name] = record

    def _move(self, record: KaiQueue) -> None:
        """Have the books follow where the queue is now."""
        order, queue = self._order, self._queues.get(record.name)
        if queue is None:
            return
        if record.name in self.outside:
            order.drop_object(record)
            order.drop_queue(queue.qid)
        elif queue.qid not in order.lines.queues:
            order.put_queue(queue)

    def where(self, name: str) -> str:
        """Where a queue of this name is that does not exist here, as a sentence; "" for one that
        is nowhere."""
        record = self.outside.get(name)
        if record is None or self._pool is None:
            return ""
        return f"queue {name} is {self._pool.why_not(dict(record.labels))}"

    def drop(self, qid: int) -> None:
        """Delete a queue."""
        self._order.drop_queue(qid)
        for name in [name for name, queue in self._queues.items() if queue.qid == qid]:
            del self._queues[name]
            self.outside.pop(name, None)
