"""Usage of the past by queue, as far as the policy has it count in shares.

Either this scheduler takes samples of its own (:meth:`UsageOverTime.begin`), which the ledger keeps
as buckets, so that a new leader goes on from them; or somebody asks a server, and passes on what it
says (:meth:`UsageOverTime.measured`). No I/O and no clock.

A sample is taken at the first step at or after each multiple of the resolution. A leader that dies
before it was stored loses that one sample; while nobody leads there are none, neither of queues
nor of the cluster, so that the ratio of the two stays right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.usage import added, usage_of
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo
from shared.policy.kai_usage import UsageClient, UsageSettings, UsageWindow
from shared.records.usage import UsageBucket, decode_usage, usage_moment

UsageByQueue = Mapping[str, tuple[int, int, int]]
"""Queue -> its use of cpu, memory and GPUs, in billionths of what there was."""


class UsageOverTime:
    def __init__(self, session: Session, cluster: ClusterInfo) -> None:
        self._session = session
        self._cluster = cluster
        self._buckets: list[UsageBucket] = []
        """The oldest first."""
        self._stored: dict[int, UsageBucket] = {}
        """First sample -> the bucket as the ledger has it."""
        self._differs = False
        """Whether the ledger may have other buckets than there are."""
        self._storing = False
        self._unpublished = False
        """Whether the buckets, or the window, changed since usage was last published."""
        self.missing: Callable[[], str] = str
        """Returns what is decided without a server's answer; "" where it answers, or none is
        asked."""

    @property
    def settings(self) -> UsageSettings | None:
        """Usage settings of the policy in force."""
        kai = self._session.policy.kai
        return None if kai is None else kai.usage

    @property
    def _is_sampled(self) -> bool:
        return self.settings is not None and self.settings.client is UsageClient.LEDGER

    def adopt(self, session: Session) -> None:
        """Go by another policy. What was measured by the one before counts no more; own samples
        do, by the new window."""
        before, self._session = self.settings, session
        if self.settings != before:
            self._publish({})
            self._unpublished = self._differs = True

    # --- own samples --------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Take a sample if one is due."""
        settings = self.settings
        if settings is None or not self._is_sampled:
            return
        step = max(1, round(settings.resolution))
        at = int(now) // step * step
        # A clock that was set back: what is of its future would keep samples out until then.
        while self._buckets and self._buckets[-1].first > now:
            self._buckets.pop()
            self._differs = True
        if not self._buckets or self._buckets[-1].last < at:
            self._sample(at, settings.window, resolution=step)
        if self._unpublished:
            self._unpublished = False
            self._publish(usage_of(self._buckets, settings.window, now))

    def _sample(self, at: int, window: UsageWindow, *, resolution: int) -> None:
        choice, cluster = self._session.queue_choice, self._cluster
        assert choice is not None
        allocated = {name: Amounts(*amounts) for name, amounts in choice.held(cluster).items()}
        total = Amounts(*choice.total(cluster))
        self._buckets = added(
            self._buckets, at, allocated, total, window=window, resolution=resolution
        )
        self._unpublished = self._differs = True

    # --- in the ledger ------------------------------------------------------------------------

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Take the buckets among the ledger's objects."""
        for key, data in objects.items():
            if (first := usage_moment(key)) >= 0:
                self._stored[first] = decode_usage(data)
                self._unpublished = True
        if self._unpublished:
            self._buckets = [self._stored[first] for first in sorted(self._stored)]
        self._differs = True

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the buckets that the ledger has no more."""
        for first in [first for key in keys if (first := usage_moment(key)) >= 0]:
            self._stored.pop(first, None)
            self._buckets = [bucket for bucket in self._buckets if bucket.first != first]

    def changes(self) -> dict[int, UsageBucket | None]:
        """Changes to store: first sample -> its bucket, None to delete it. They take effect when
        :meth:`stored` is called."""
        # One change is on its way at a time, so that what the ledger has is always known here.
        if self._storing or not self._differs:
            return {}
        self._differs = False
        now = {bucket.first: bucket for bucket in self._buckets} if self._is_sampled else {}
        marks: dict[int, UsageBucket | None] = {
            first: bucket for first, bucket in now.items() if self._stored.get(first) is not bucket
        }
        marks.update(dict.fromkeys(self._stored.keys() - now.keys()))
        self._storing = bool(marks)
        return marks

    def stored(self, marks: Mapping[int, UsageBucket | None]) -> None:
        self._storing = False
        for first, bucket in marks.items():
            if bucket is None:
                self._stored.pop(first, None)
            else:
                self._stored[first] = bucket

    # --- what others know ---------------------------------------------------------------------

    def measured(self, usage: UsageByQueue) -> None:
        """Take what a server says, in place of what it said before."""
        if self.settings is not None and not self._is_sampled:
            self._publish(usage)

    def _publish(self, usage: UsageByQueue) -> None:
        objects = self._cluster.objects
        if objects.queue_usage != usage:
            objects.queue_usage = {name: (*parts,) for name, parts in usage.items()}
            self._cluster.revision += 1
