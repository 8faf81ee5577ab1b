"""What the page shows: values and tables, read from the models that answer the commands.

Nothing here is kept up to date by the scheduler. While a page is open the picture is read anew for
each frame: values as a whole, rows of jobs where a job's story moved, rows of nodes all (a node has
no version that follows its usage), and a part of the other jobs in rotation, whose reason may
change without a move of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from coordinator.api.web.event_rows import EVENT_COLUMNS, MOST_EVENTS, event_rows
from coordinator.api.web.job_rows import JOB_COLUMNS, job_kinds, job_row
from coordinator.api.web.node_rows import NODE_COLUMNS, node_row, shown_resources, shown_slots
from coordinator.api.web.queue_rows import WaitingJobs, queues_json
from coordinator.api.web.table import FrameTable
from coordinator.core.coordinator import Coordinator
from coordinator.intake.documents.kinds import EVENT, SHARD
from coordinator.objects.store import Objects
from coordinator.objects.watchers import WatchExpired
from shared.messages.messages import Level
from shared.slices import Steps

Json = dict[str, Any]

ROWS_A_STEP = 50
"""Rows that are read before others may run: 20 us each."""
IN_ROTATION = 200
"""Jobs that are read anew in each frame without a move of their story."""
EARLIER = 500
"""Versions before the first frame whose events it shows."""


@dataclass(frozen=True, slots=True)
class PictureSources:
    core: Coordinator
    objects: Objects
    status: Callable[[], Json]
    """The answer of ``/apis/quadrant.dev/v1alpha1/status``."""
    health: Callable[[], Json]
    """The answer of ``/health``."""
    waiting: Callable[[], WaitingJobs]
    refresh: Callable[[], Awaitable[None]]
    """Updates the expensive counts behind ``status`` and ``waiting``."""


class PagePicture:
    def __init__(self, sources: PictureSources) -> None:
        self._sources = sources
        self.values: Json = {}
        self.jobs = FrameTable(JOB_COLUMNS)
        self.nodes = FrameTable(NODE_COLUMNS)
        self.events = FrameTable(EVENT_COLUMNS)
        self.tables = {"jobs": self.jobs, "nodes": self.nodes, "events": self.events}
        self.version = 0
        """The resourceVersion of the last reading: whatever came after it comes with the next."""
        self._promised: Counter[int] = Counter()
        """Row of a node -> number of tasks that are promised a place there."""
        self._promises: dict[int, tuple[int, ...]] = {}
        """Job -> rows that it is promised."""

    def clear(self) -> None:
        """Forget everything: nobody looks any more."""
        self.values = {}
        self.version = 0
        self._promised.clear()
        self._promises.clear()
        for table in self.tables.values():
            table.clear()

    async def refresh(self) -> None:
        await self._sources.refresh()

    def read(self) -> Steps[None]:
        """Bring values and tables up to date."""
        objects, since = self._sources.objects, self.version
        upto = objects.version
        yield from self._read_jobs(since)
        yield from self._read_nodes()
        yield from self._read_events(since or max(objects.floor, upto - EARLIER))
        values = yield from self._read_values()
        self.values, self.version = values, upto

    # --- jobs -------------------------------------------------------------------------------------

    def _read_jobs(self, since: int) -> Steps[None]:
        core, objects = self._sources.core, self._sources.objects
        present, rows = core.order.jobs, self.jobs.rows
        stale: Iterable[int] = [jid for jid, _ in objects.stories.since(since)] if since else ()
        yield
        added = list(present.keys() - rows.keys())
        yield
        gone = list(rows.keys() - present.keys())
        yield
        # The first rows are those that were read longest ago: each is put back at the end.
        rotated = [int(jid) for jid in islice(rows, IN_ROTATION)]
        for jid in gone:
            self.jobs.drop(jid)
            self._promise(int(jid), ())
        for number, jid in enumerate(dict.fromkeys([*added, *stale, *rotated])):
            if number % ROWS_A_STEP == 0:
                yield
                # Anew after each pause: what it caches is that of one moment.
                read_model = objects.read_model()
            state = present.get(jid)
            if state is not None:
                row = job_row(read_model, state)
                self.jobs.put(row)
                self._promise(jid, tuple(state.nominated.values()))
        for jid in rotated:
            if (kept := rows.pop(jid, None)) is not None:
                rows[jid] = kept

    def _promise(self, jid: int, rows: tuple[int, ...]) -> None:
        before = self._promises.pop(jid, ())
        if rows:
            self._promises[jid] = rows
        if before != rows:
            self._promised.subtract(before)
            self._promised.update(rows)

    # --- nodes ------------------------------------------------------------------------------------

    def _read_nodes(self) -> Steps[None]:
        core, table = self._sources.core, self.nodes
        slots = shown_slots(core, core.order.accounts.cluster.names)
        nodes = core.nodes
        for row in list(table.rows.keys() - nodes.keys()):
            table.drop(row)
        for number, node in enumerate(list(nodes.values())):
            if number % ROWS_A_STEP == 0:
                yield
            table.put(node_row(core, node, slots, self._promised[node.row]))

    # --- the rest ---------------------------------------------------------------------------------

    def _read_events(self, since: int) -> Steps[None]:
        objects, table = self._sources.objects, self.events
        try:
            changes = yield from objects.changes(since, EVENT)
        except WatchExpired:  # older than what is remembered: those to come are shown
            return
        for row in event_rows(objects, changes):
            table.put(row)
            yield
        surplus = len(table.rows) - MOST_EVENTS
        for row in sorted(table.rows.values(), key=lambda row: row[2])[: max(0, surplus)]:
            table.drop(row[0])

    def _read_values(self) -> Steps[Json]:
        sources, core = self._sources, self._sources.core
        queues = yield from queues_json(core, sources.objects, sources.waiting())
        names = core.order.accounts.cluster.names
        page = sources.objects.list(SHARD, namespace=None, limit=None)
        shards = [entry.object() for entry in page.items]
        yield
        return {
            "status": sources.status(),
            "health": sources.health(),
            "queues": queues,
            "shards": [
                {"name": name} | shard["status"] | self._tally(int(name.rpartition("-")[2]))
                for shard in shards
                for name in (shard["metadata"]["name"],)
            ],
            "resources": shown_resources(shown_slots(core, names), names),
            "kinds": job_kinds(),
        }

    def _tally(self, shard: int) -> Json:
        """A shard's counts since this coordinator leads, which the metrics show as well."""
        tally = self._sources.core.tally.shards.get(shard)
        if tally is None:
            return {"levels": {}, "statements": {}, "lost": 0}
        return {
            "levels": {f"L{level.value}": tally.levels[level] for level in Level},
            "statements": dict(tally.statements),
            "lost": tally.turns_lost,
        }
