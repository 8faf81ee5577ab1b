"""Effects of an inquiry's evicting turns, applied to its later turns.

Between two real turns the log tells the second one that the victims of the first are leaving, and
Order charges the queues. In an inquiry nothing of that happens: the tasks count as leaving here,
and the totals in the next turn's context are corrected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from shard_worker.session_model.workload import Amounts, add
from shard_worker.turns.session_turn import SessionPlaced
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.messages.messages import EvictRun, Turn
from shared.messages.turn_context import TOTALS, TURN_CONTEXT, QueueContext
from shared.records.specs import decode_queue
from shared.records.specs_jobs import decode_job

_CHANGED = ("allocated", "requested", "releasing")


class ForeseenEvictions:
    def __init__(self, view: View) -> None:
        self._view = view
        self._served: set[int] = set()
        self._victims: set[int] = set()
        self._totals: dict[int, dict[str, Amounts]] = defaultdict(lambda: {n: {} for n in _CHANGED})
        """Queue -> what its totals change by."""
        self._undo: list[Callable[[], None]] = []

    def served(self, jid: int) -> bool:
        """Whether a turn of the job had a result: the actions after it are not tried then."""
        return jid in self._served

    def take(self, turn: Turn, placed: SessionPlaced) -> None:
        """Take the result of a turn that stays on the view."""
        self._served.add(turn.jid)
        for run in placed.evictions:
            self._evict(run)
        allocated = self._totals[turn.qid]["allocated"]
        for place in (*placed.core, *placed.tail):
            add(allocated, self._view.classes[place.cid].charged, 1)

    def _evict(self, run: EvictRun) -> None:
        residents = self._view.residents
        assert residents is not None, "a turn that evicts finds its victims in this table"
        self._victims.add(run.jid)
        self._undo.append(residents.foresee_leaving(run.jid, run.tasks))
        jobs = residents.jobs
        totals = self._totals[int(jobs.column("qid")[jobs.slot(run.jid)])]
        charged, count = self._view.classes[run.cid].charged, len(run.tasks)
        for name, times in (("allocated", -count), ("requested", -count), ("releasing", count)):
            add(totals[name], charged, times)

    def seen_by(self, turn: Turn) -> Turn:
        """The turn with the context that it would have after all that was taken."""
        if not self._served:
            return turn
        context = TURN_CONTEXT.decode(turn.world)
        own, *others = context.jobs
        # What the context says of a victim is of the time before. Without it the job is read from
        # the table, and spared: rules between tasks count it.
        remaining = [job for job in others if decode_job(job.spec).jid not in self._victims]
        counted = self._victims if len(remaining) < len(others) else set[int]()
        changed = replace(
            context,
            jobs=[own, *remaining],
            queues=[self._queue(queue) for queue in context.queues],
            spared=sorted(counted.union(context.spared)),
        )
        return replace(turn, world=TURN_CONTEXT.encode(changed))

    def _queue(self, queue: QueueContext) -> QueueContext:
        changes = self._totals.get(decode_queue(queue.spec).qid)
        if changes is None:
            return queue
        totals = [dict(total) for total in queue.totals]
        for name, amounts in changes.items():
            add(totals[TOTALS.index(name)], amounts.items(), 1)
        return replace(queue, totals=totals)

    def undo(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
