"""Jobs of one pod that are to join a group, because the pod names one since it was admitted.

KAI's pod grouper and Volcano's PodGroup controller see a pod once it exists, make its PodGroup, and
then write the group's name on the pod. From then on the job gets no turn
(:meth:`shard_worker.framework.eligibility.Eligibility.kept_out`). A turn that was open before may
have placed the pod: its outcome is awaited, and a pod that is placed stays a job of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.jobs.state import JobState, SchedulingStatus
from shard_worker.session_model.native_groups import JOINS_TREE
from shared.manifests.fields.metadata import group_deadline, late_group
from shared.messages.messages import TaskState
from shared.model.model import Job


class DueMoves(NamedTuple):
    """Jobs to move now, and jobs that stay as they are although their pod names a group."""

    move: list[int]
    apart: list[int]
    expired: list[int]
    """Jobs whose group nobody named in time."""


class LateGroups:
    """See the module. Where such controllers run, a pod waits for its group's name until a
    deadline; then it counts as a job of its own."""

    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._moving: set[int] = set()
        """Jobs of which something is being stored."""
        self._deadlines: list[tuple[float, int]] = []
        """Heap of (until when it waits for its group's name, jid)."""

    def note(self, job: Job) -> None:
        """Note that the job is new, has another specification, or waits again."""
        if job.refused == JOINS_TREE:
            self._waiting.add(job.jid)
        if job.kind != "Pod" or not job.annotations:
            return
        if late_group(job.annotations):
            self._waiting.add(job.jid)
        elif (deadline := group_deadline(job.annotations)) is not None:
            heapq.heappush(self._deadlines, (deadline, job.jid))

    def forget(self, jid: int) -> None:
        self._waiting.discard(jid)

    def next_due(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    def take(self, jobs: Mapping[int, JobState], now: float) -> DueMoves | None:
        """The moves that are due; each is returned once. None where there is none."""
        due = DueMoves([], [], [])
        while self._deadlines and self._deadlines[0][0] <= now:
            _, jid = heapq.heappop(self._deadlines)
            state = jobs.get(jid)
            if state is None or jid in self._moving:
                continue
            if group_deadline(state.job.annotations) is not None:
                due.expired.append(jid)
                self._moving.add(jid)
        for jid in sorted(self._waiting - self._moving):
            state = jobs.get(jid)
            if state is not None and (state.status is SchedulingStatus.OPEN or state.unread):
                continue
            self._waiting.discard(jid)
            if state is None or any(at != TaskState.PENDING for at in state.states):
                continue
            # A late copy of a refused bind may still start the pod under this job's number: purged,
            # the job would leave a task that nobody knows (decision 0022).
            (due.apart if state.refused else due.move).append(jid)
            self._moving.add(jid)
        return due if any(due) else None

    def stored(self, jids: Iterable[int], jobs: Mapping[int, JobState]) -> None:
        """Note that these moves are stored. What could not be moved yet is due again."""
        for jid in jids:
            self._moving.discard(jid)
            if (state := jobs.get(jid)) is not None:
                self.note(state.job)
