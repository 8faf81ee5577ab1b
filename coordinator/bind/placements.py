"""Placements: the node of each task, and what it takes from the shards' idle sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.order.order import Order
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.ledger.errors import Deposed
from shared.messages.messages import ALLOCATE, HOLDING, Outcome, StatusItem, TaskState
from shared.model.model import Requests
from shared.units.things import Things


class Places:
    """Keeps the placements. Each method is called before Order takes the same event, because it
    reads the old states."""

    def __init__(self, order: Order, dispatcher: Dispatcher) -> None:
        self._order = order
        self._dispatcher = dispatcher

    def all_let_in(self, truth: Mapping[int, tuple[JobRecord, Mapping[int, TaskRecord]]]) -> None:
        """Raises Deposed where the ledger has tasks that this coordinator has not let in: no turn
        of its own was for them. Who was paused while another took over reads, when it wakes, what
        that one has let in and placed since."""
        for jid, (_, tasks) in truth.items():
            state = self._order.known(jid)
            if state is not None and max(tasks, default=0) >= len(state.states):
                task = f"task {max(tasks)} of {state.job.namespace}/{state.job.name}"
                raise Deposed(f"another coordinator has let in {task}: it leads now")

    def reread(self, state: JobState, tasks: Mapping[int, TaskRecord]) -> int:
        """Take the ledger's records of all tasks of a job. Returns how many hold a node that the
        books did not know of."""
        unknown = 0
        for tix, before in enumerate(state.states):
            task = tasks.get(tix)
            was_held = before in HOLDING
            holds = task is not None and task.state in HOLDING
            if was_held and not (holds and task is not None and task.row == state.rows[tix]):
                cid = state.job.role_of(tix).cid
                self._dispatcher.used([state.rows[tix]], self._requests(cid), -1)
            if holds and task is not None and not (was_held and task.row == state.rows[tix]):
                self._dispatcher.used([task.row], self._requests(task.cid), +1)
                unknown += not was_held
        return unknown

    @staticmethod
    def rows_of(state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        """Take the rows from the ledger's records."""
        state.clear_rows(range(len(state.rows)))
        # A pending task keeps its record after an eviction, so that its incarnation survives a
        # restart (decision 0028); the row in it means nothing.
        placed = [t for t, task in tasks.items() if task.state != TaskState.PENDING]
        state.put_rows(placed, [tasks[t].row for t in placed])
        state.devices = {tix: task.devices for tix, task in tasks.items() if task.devices}

    def assigned(self, entries: Iterable[BindEntry]) -> None:
        """Take the devices of tasks that are being bound."""
        for entry in entries:
            for (jid, tix), devices in entry.devices.items():
                state = self._order.known(jid)
                if state is not None:
                    state.devices[tix] = devices

    def placed(self, outcome: Outcome) -> tuple[JobState | None, int, int]:
        """Take a turn's outcome: returns its job, the number of placed tasks, and how many of them
        were recorded before the outcome arrived."""
        state = self._order.known(outcome.jid)
        if state is None or state.status is not SchedulingStatus.OPEN:
            return None, 0, 0
        placed = recorded = 0
        for p in outcome.placements:
            if p.kind == ALLOCATE:
                tasks = state.expected(p.tasks)
                rows = p.rows
                # What became of those binds was recorded before the outcome came: `moved` has
                # counted them.
                if len(tasks) != len(rows):
                    at = dict(zip(p.tasks, p.rows, strict=True))
                    rows = [at[tix] for tix in tasks]
                self._dispatcher.used(rows, self._requests(p.cid), +1)
                state.put_rows(tasks, rows)
                if p.devices:  # the job's next turn may come before its entry of the bind stream
                    state.devices |= dict.fromkeys(tasks, p.devices)
                placed += len(p.tasks)
                recorded += len(p.tasks) - len(rows)
        return state, placed, recorded

    def placed_run(self, cid: int, run: Iterable[JobState], rows: list[int]) -> None:
        """As :meth:`placed` of each, of jobs of one task of this class."""
        self._dispatcher.used(rows, self._requests(cid), +1)
        for state, row in zip(run, rows, strict=True):
            state.rows[0] = row

    def moved(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None:
        """Take a recorded change: tasks that left their nodes, and placed ones whose outcome is
        still under way."""
        state = self._order.known(item.jid)
        if state is None:
            return
        states = state.states
        if item.state in HOLDING and all(states[tix] in HOLDING for tix in tasks):
            return  # they are where they were: nearly always so
        for role in state.job.roles:
            end = role.first + role.count
            members = [(t, r) for t, r in zip(tasks, rows, strict=True) if role.first <= t < end]
            unseen = [r for t, r in members if states[t] not in HOLDING]
            requests = self._requests(role.cid)
            if item.state in HOLDING:
                self._dispatcher.used(unseen, requests, +1)
                if unseen:
                    state.put_rows([t for t, _ in members], [r for _, r in members])
            else:
                seen_rows = [r for t, r in members if states[t] in HOLDING]
                self._dispatcher.used(seen_rows, requests, -1)
        if item.state is TaskState.PENDING:
            state.clear_rows(tasks)
            for tix in tasks:
                state.devices.pop(tix, None)

    def adopted(
        self, state: JobState, tasks: list[int], rows: list[int], *, devices: Things
    ) -> None:
        """Charge tasks to these nodes, wherever the books had them. ``devices``: of each there."""
        for tix, row in zip(tasks, rows, strict=True):
            state.devices.pop(tix, None)
            if devices:
                state.devices[tix] = devices
            requests = self._requests(state.job.role_of(tix).cid)
            if state.states[tix] in HOLDING:
                self._dispatcher.used([state.rows[tix]], requests, -1)
            self._dispatcher.used([row], requests, +1)

    def _requests(self, cid: int) -> Requests:
        return self._order.accounts.classes[cid].requests
