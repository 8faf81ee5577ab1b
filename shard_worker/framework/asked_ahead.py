"""Probe of a job by external plugins' rules before it joins the line, to catch what they raise.

The coordinator asks one rule about many jobs at once, and contains what it raises with the answer
that lets nothing happen (:mod:`shard_worker.framework.plugin_errors`). Such an answer looks like a
judgement: a queue that is full, a job that starves nobody. So each job that comes into line is
judged once by every rule that will be asked about it, and waits by the plugin's name if one raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from shard_worker.session_model.queue_totals import waits_for_entry
from shared.policy.evicting_actions import EVICTING

if TYPE_CHECKING:
    from shard_worker.framework.plugin_errors import PluginError
    from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
    from shared.model.model import Requests, Role
    from shared.policy.model import Policy


class OrderRules(Protocol):
    """Rules of a session about a job that the coordinator asks; see the session's own methods."""

    policy: Policy

    def watching(self) -> AbstractContextManager[list[PluginError]]: ...
    def queue_key(self, queue: QueueInfo, cluster: ClusterInfo) -> object: ...
    def overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool: ...
    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool: ...
    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> bool: ...
    def job_key(self, info: JobInfo, cluster: ClusterInfo) -> object: ...
    def task_key(self, role: Role) -> object: ...
    def job_ready(self, progress: Progress) -> bool: ...
    def job_starving(self, info: JobInfo) -> bool: ...


def error_about(session: OrderRules, info: JobInfo, cluster: ClusterInfo) -> PluginError | None:
    """The first error that the rules of the coordinator raise about this job, its roles or queue;
    None for none. Nothing is counted."""
    with session.watching() as errors:
        for _ in _answers(session, info, cluster):
            if errors:
                return errors[0]
    return None


def _answers(session: OrderRules, info: JobInfo, cluster: ClusterInfo) -> Iterator[object]:
    """Ask one rule after the other; those that the policy never asks are left out."""
    if (queue := cluster.queues.get(info.qid)) is not None:
        yield session.queue_key(queue, cluster)
        yield session.overused(queue, cluster)
        for cls in info.classes:
            yield session.allocatable(queue, cls.requests, cluster)
        if "enqueue" in session.policy.actions and waits_for_entry(info.phase):
            yield info.job.min_resources is None or session.job_enqueueable(info, cluster)
    yield session.job_key(info, cluster)
    for role in info.job.roles:
        yield session.task_key(role)
    yield session.job_ready(info.progress())
    if not EVICTING.isdisjoint(session.policy.actions):
        yield session.job_starving(info)
