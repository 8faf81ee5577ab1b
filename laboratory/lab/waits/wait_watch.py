"""The waits of all jobs while a week is played, recorded as the service records them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import line_words
from coordinator.explain.queues.queue_position import waiting_entries
from coordinator.intake.admission.registry import Registry
from coordinator.jobs.state import JobState
from coordinator.objects.recorder import Observing
from coordinator.objects.wait_log import WaitLog
from shared.messages.reason import Reason

LOOK_SECONDS = 60.0
"""Seconds of the week between two looks at the reasons of jobs that had no turn."""


class WaitWatch:
    """To be told of a coordinator's core before its first job."""

    def __init__(self, core: Coordinator, registry: Callable[[], Registry]) -> None:
        self._core = core
        self._observing = Observing(core, first=0, registry=registry, notify=lambda: None)
        core.observe(self._observing)

    def look(self, _at: float) -> None:
        """Record the reasons that changed without a turn of the job."""
        stories = self._observing.stories.jobs
        for jid, word in list(self._words()):
            story = stories.get(jid)
            last = "" if story is None or story.waits is None else story.waits.word
            if word is not Reason.PENDING_EVALUATION and last != word:
                self._observing.report_reason(jid)

    def _words(self) -> Iterator[tuple[int, Reason]]:
        order = self._core.order
        for queue in order.lines.queues.values():
            for line in queue.lines.values():
                words = line_words(self._core, line)
                for _, _, jid, _ in waiting_entries(self._core, line):
                    yield jid, words.get(order.jobs[jid].reason, Reason.PENDING_EVALUATION)
        for jid in order.admission.waiting:
            yield jid, order.admission.why.get(jid, Reason.PENDING_EVALUATION)

    def log(self, state: JobState) -> WaitLog:
        """The waits of a job, in virtual time."""
        created, story = state.job.created, self._observing.stories.jobs.get(state.job.jid)
        return WaitLog(created) if story is None else story.wait_log(created)
