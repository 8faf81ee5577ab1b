"""Tracks how long tasks have been BINDING, over the passes of the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

BIND_SECONDS = 10.0
"""A task may be BINDING this long before its bind entry is looked for.

An entry that nobody processes is requested after 5 s
(:data:`coordinator.service.bind_loop.LOOK_BACK_SECONDS`). If the cluster answers that the task has
already ended (``BindAnswer.OVER``), nothing is recorded for the bind, and the report of the end
follows. Both are done by then; noticing a stuck task after 10 s and a pass is no outage.
"""

STEP_TASKS = 1000
"""Tasks recorded per step: 1 ms."""

Task = tuple[int, int]


class StuckBinds:
    def __init__(self, seconds: float | None = None) -> None:
        """``seconds``: None for :data:`BIND_SECONDS`."""
        self._seconds = BIND_SECONDS if seconds is None else seconds
        self._since: dict[Task, tuple[int, float]] = {}
        """Task -> its row, and when it was first seen BINDING there."""
        self.stuck: dict[Task, int] = {}
        """Tasks that were BINDING in every pass for longer than the bound, with their rows."""

    def noting(self, binding: Mapping[Task, int], now: float) -> Iterator[None]:
        """Record the tasks that are BINDING in this pass, with their rows, step by step."""
        before, self._since, self.stuck = self._since, {}, {}
        for number, (task, row) in enumerate(binding.items(), 1):
            previous = before.get(task)
            # Another row: it was refused and placed again in between, so its time begins anew.
            since = previous[1] if previous is not None and previous[0] == row else now
            self._since[task] = row, since
            if now - since >= self._seconds:
                self.stuck[task] = row
            if number % STEP_TASKS == 0:
                yield
