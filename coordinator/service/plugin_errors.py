"""Exceptions of plugins: counted by plugin, one traceback of each kind in the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from shard_worker.framework.plugin_errors import PluginError
from shard_worker.worker.figures import WorkerFigures
from shared.messages.reason import Reason
from shared.units.amount_text import plural

RECENT_SECONDS = 60.0
"""How long an error keeps the service degraded of which no job waits: a rule about queues."""

log = structlog.get_logger(__name__)


class PluginErrors:
    """The errors of all workers, and of the coordinator itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        """Turns that ended, and questions of the coordinator that were answered without the rule,
        by plugin."""
        self._clock = clock
        self._logged: set[str] = set()
        self._last = ""
        self._raised_at = -RECENT_SECONDS

    def raised(self, error: PluginError) -> None:
        """Take what a rule raised in the coordinator."""
        self._note({error.plugin: 1}, {error.kind: error.traceback}, where="coordinator")

    def of_worker(self, shard: int, figures: WorkerFigures) -> None:
        if figures.plugin_errors:
            self._note(figures.plugin_errors, figures.tracebacks, where=f"shard {shard}")

    def _note(self, counts: Mapping[str, int], traces: Mapping[str, str], *, where: str) -> None:
        self.counts.update(counts)
        self._raised_at = self._clock()
        for kind, text in traces.items():
            plugin, point, exception = kind.split(" ", 2)
            self._last = f"plugin {plugin} raised {exception} at {point}"
            if kind not in self._logged:
                self._logged.add(kind)
                log.error(
                    "A plugin raised: its jobs wait with reason PluginError",
                    plugin=plugin,
                    point=point,
                    exception=exception,
                    where=where,
                    traceback=text,
                )

    def message(self, waiting: Mapping[str, int]) -> str:
        """Why the service is degraded, "" if it is not. ``waiting``: reason -> jobs."""
        jobs = waiting.get(Reason.PLUGIN_ERROR, 0)
        if jobs:
            return f"{self._last}; {plural(jobs, 'job')} wait for it"
        return self._last if self._clock() - self._raised_at < RECENT_SECONDS else ""
