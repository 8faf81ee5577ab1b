"""Jobs of one pod that are to join a group, because the pod names one since it was admitted.

KAI's pod grouper and Volcano's PodGroup controller see a pod once it exists, make its PodGroup, and
then write the group's name on the pod. From then on the job gets no turn
(:meth:`shard_worker.framework.eligibility.Eligibility.kept_out`). A turn that was open before may
have placed the pod: its outcome is awaited, and a pod that is placed stays a job of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.jobs.state import JobState, SchedulingStatus
from shared.manifests.fields.metadata import late_group
from shared.messages.messages import TaskState
from shared.model.model import Job


class DueMoves(NamedTuple):
    """Jobs to move now, and jobs that stay as they are although their pod names a group."""

    move: list[int]
    apart: list[int]


class LateGroups:
    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._moving: set[int] = set()
        """Moves that are being stored."""

    def note(self, job: Job) -> None:
        """Note that the job is new, has another specification, or waits again."""
        if job.kind == "Pod" and late_group(job.annotations):
            self._waiting.add(job.jid)

    def forget(self, jid: int) -> None:
        self._waiting.discard(jid)

    def take(self, jobs: Mapping[int, JobState]) -> DueMoves | None:
        """The moves that are due; each is returned once. None where there is none."""
        due = DueMoves([], [])
        for jid in sorted(self._waiting - self._moving):
            state = jobs.get(jid)
            if state is not None and (state.status is SchedulingStatus.OPEN or state.unread):
                continue
            self._waiting.discard(jid)
            if state is None or state.states[0] != TaskState.PENDING:
                continue
            # A late copy of a refused bind may still start the pod under this job's number: purged,
            # the job would leave a task that nobody knows (decision 0022).
            (due.apart if state.refused else due.move).append(jid)
            self._moving.add(jid)
        return due if due.move or due.apart else None

    def stored(self, jids: Iterable[int], jobs: Mapping[int, JobState]) -> None:
        """Note that these moves are stored. What could not be moved yet is due again."""
        for jid in jids:
            self._moving.discard(jid)
            if (state := jobs.get(jid)) is not None:
                self.note(state.job)
