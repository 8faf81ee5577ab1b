"""Tasks that stay BINDING: since when, as far as the audit's looks tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

BIND_SECONDS = 10.0
"""For so long a task may be BINDING before its bind entry is looked for. An entry that nobody
drives is asked for after 5 s (``binding.LOOK_BACK_SECONDS``); where the cluster says that the task
has ended already (``BindAnswer.OVER``), nothing is recorded for the bind, and the report of the end
is on its way. Both are over by then, and a task that is missed for 10 s and a look is no outage."""

STEP_TASKS = 1000
"""Tasks noted at once: 1 ms."""

Task = tuple[int, int]


class BindWatch:
    def __init__(self, seconds: float | None = None) -> None:
        """``seconds``: None for :data:`BIND_SECONDS`."""
        self._seconds = BIND_SECONDS if seconds is None else seconds
        self._since: dict[Task, tuple[int, float]] = {}
        """Row, and when the task was first seen BINDING there."""
        self.stuck: dict[Task, int] = {}
        """Tasks that were BINDING in every look for longer than the bound, with their rows."""

    def noting(self, binding: Mapping[Task, int], now: float) -> Iterator[None]:
        """``binding``: the tasks that are BINDING in this look, with their rows. Step by step."""
        before, self._since, self.stuck = self._since, {}, {}
        for number, (task, row) in enumerate(binding.items(), 1):
            previous = before.get(task)
            since = previous[1] if previous is not None and previous[0] == row else now
            self._since[task] = row, since
            if now - since >= self._seconds:
                self.stuck[task] = row
            if number % STEP_TASKS == 0:
                yield
