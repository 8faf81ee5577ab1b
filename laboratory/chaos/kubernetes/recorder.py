"""Writes the history of a run on a real API server: the ledger's log, and the watch of pods.

In the file the cluster's events must not come later than what the ledger says because of them, and
a watch may be late. So entries of the log are held back until the watch has told everything before
them, which it says itself: a pod that nobody places, the *beat*, is given the time of day again and
again. When the watch shows the beat of a time, it has shown all that was written before, and
the entries up to that time follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.history.events import time_of
from coordinator.cluster.history.file import HistoryFile, sync_regularly
from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import from_kubeconfig
from coordinator.cluster.kubernetes.api.objects import PodObject, pod_of, spec_of
from coordinator.cluster.kubernetes.api.reflector import Reflector, WatchedKind
from laboratory.chaos.kubernetes.pod_history import (
    NamedTask,
    PodHistory,
    TaskNames,
)
from laboratory.chaos.report import RunFailed
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.errors import UnexpectedAnswer
from laboratory.workloads.manifests import manifest
from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import LedgerError
from shared.ledger.keys import log_position
from shared.ledger.redis.client import RedisLedger

BEAT = "quadrant-beat"
BEAT_SECONDS = 0.25
COMPLETE_SECONDS = 60.0
"""Maximum time for the file to have the whole log at the end."""
READER = "history"
"""Our name among the log's readers: what we have not read is not trimmed."""
ADOPTED_SECONDS = 90.0
"""Maximum time for a ledger that began anew to know what runs: the Lease of the one before has to
run out, and workers may have to be killed and started meanwhile."""
ENDED = ("Succeeded", "Failed")
BEGUN_SECONDS = 0.05
AGAIN_SECONDS = 0.2
"""Pause after the API server or the ledger did not answer."""

_TIME = "quadrant.dev/beat"
_PODS = WatchedKind("Pod", "/api/v1/pods", "v1", "Pod")
_BEAT_PATH = f"/api/v1/namespaces/default/pods/{BEAT}"
_ENTRIES = 512


class ClusterRecorder:
    """Use :func:`recording`."""

    def __init__(
        self, history: HistoryFile, reader: ApiReader, ledger: RedisLedger, *, scheduler: str
    ) -> None:
        """``scheduler``: name in the pods that are ours."""
        self._history, self._reader, self._ledger = history, reader, ledger
        self._scheduler = scheduler
        self._names, self._pods = TaskNames(), PodHistory()
        self._held: deque[LogEntry] = deque()
        self._read = "0"
        """Id of the last entry of the log that was read."""
        self._listed, self._listed_at = False, 0.0
        """Whether the first list is over, and since when."""
        self._beat_of_list = 0.0
        self._before: dict[str, tuple[PodObject, bool]] = {}
        """Pods that had nodes before the first list, by uid, and whether they are gone since: told
        once the ledger's log names them, which one that began anew does not do for all."""

    async def run_forever(self, client: ApiClient) -> None:
        async with self._reader, asyncio.TaskGroup() as group:
            group.create_task(Reflector(self._reader, _PODS, self).run_forever())
            group.create_task(self._read_forever())
            group.create_task(_beat_forever(client))
            group.create_task(sync_regularly(self._history))

    async def complete(self) -> None:
        """Returns once the file has the log up to now. Raises RunFailed."""
        try:
            async with asyncio.timeout(COMPLETE_SECONDS):
                tail = log_position(await self._ledger.log_tail())
                while log_position(self._history.position) < tail:  # noqa: ASYNC110 - remote
                    await asyncio.sleep(BEAT_SECONDS)
        except (TimeoutError, LedgerError) as error:
            raise RunFailed(f"the history does not follow the ledger's log: {error!r}") from None

    # --- the ledger's log -----------------------------------------------------------------------

    async def _read_forever(self) -> None:
        while True:
            try:
                entries = await self._ledger.read_log(self._read, count=_ENTRIES, block=1.0)
                if entries:
                    self._read = entries[-1].id
                    self._held += entries
                    await self._names.learn(entries)
                    self._record_earlier()
                await self._ledger.report_reader(READER, self._read)
            except LedgerError:
                await asyncio.sleep(AGAIN_SECONDS)  # it is struck, or starts again

    def _record_earlier(self) -> None:
        for uid in [uid for uid in self._before if self._names.knows(uid)]:
            pod, deleted = self._before.pop(uid)
            self._record(pod, self._names.named(uid), gone=deleted)

    def _release(self, until: float) -> None:
        """Write what the log has from before this time. Raises RunFailed where a ledger that began
        anew does not come to know what runs."""
        if self._listed and until > self._listed_at + ADOPTED_SECONDS:
            for pod, deleted in self._before.values():
                if not deleted and pod.status.phase not in ENDED:
                    raise RunFailed(f"pod {pod.metadata.name} runs, and is nobody's in the ledger")
        due: list[LogEntry] = []
        while self._held and time_of(self._held[0].id) < until:
            due.append(self._held.popleft())
        self._history.ledger_entries(due)

    # --- the watch of pods ----------------------------------------------------------------------

    def absent(self, kind: WatchedKind) -> None:
        raise RunFailed("the API server has no pods")

    async def listed(self, kind: WatchedKind, items: list[msgspec.Raw], *, first: bool) -> None:
        if first:
            self._pods.begin_list()
        await self.changed(kind, [(False, item) for item in items])

    async def list_ended(self, kind: WatchedKind) -> None:
        if not self._listed:
            self._listed, self._listed_at = True, time.time()
        self._history.cluster_events(self._pods.end_list(time.time()))
        self._release(self._beat_of_list)

    async def changed(self, kind: WatchedKind, item: list[tuple[bool, msgspec.Raw]]) -> None:
        for deleted, raw in item:
            pod = pod_of(raw)
            if pod.metadata.name == BEAT:
                self._beat(pod, gone=deleted)
            else:
                await self._take(pod, gone=deleted)

    def _beat(self, pod: PodObject, *, gone: bool) -> None:
        if gone:
            return
        at = float((pod.metadata.annotations or {})[_TIME])
        if self._pods.listing:  # the rest of the list is of the same moment
            self._beat_of_list = at
        else:
            self._release(at)

    async def _take(self, pod: PodObject, *, gone: bool) -> None:
        uid, spec = pod.metadata.uid, spec_of(pod.spec)
        if spec.scheduler_name != self._scheduler or not spec.node_name:
            return
        if not self._names.knows(uid) and (not self._listed or uid in self._before):
            self._before[uid] = pod, gone
            return
        self._record(pod, await self._names.of(uid), gone=gone)

    def _record(self, pod: PodObject, task: NamedTask, *, gone: bool) -> None:
        uid, now, events = pod.metadata.uid, time.time(), list[ClusterEvent]()
        if not gone or self._pods.knows(uid):  # its last form may say more than the one before
            events += self._pods.take(pod, task, now)
        if gone:
            events += self._pods.gone(uid, now)
        self._history.cluster_events(events)


async def ledger_begun(ledger: RedisLedger, *, before: str = "") -> str:
    """The id of a ledger, once it is not the one before: until a coordinator begins, an old copy
    looks like what it is a copy of."""
    while True:
        with contextlib.suppress(LedgerError):
            if (cluster_id := await ledger.cluster_id()) not in ("", before):
                return cluster_id
        await asyncio.sleep(BEGUN_SECONDS)


@contextlib.asynccontextmanager
async def recording(
    path: Path, kubeconfig: Path, ledger: RedisLedger, client: ApiClient, *, scheduler: str
) -> AsyncIterator[ClusterRecorder]:
    """Record into ``path`` within the context. A failure of the recorder is one of the body."""
    with contextlib.closing(HistoryFile(path)) as history:
        reader = ApiReader(from_kubeconfig(kubeconfig, None))
        recorder = ClusterRecorder(history, reader, ledger, scheduler=scheduler)
        await client.delete(_BEAT_PATH, code=None)  # of a recorder before this one
        await client.create(_beat(time.time()))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(recorder.run_forever(client))
            yield recorder
            task.cancel()
        history.end(time.time())


def _beat(now: float) -> dict[str, Any]:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]}
    notes = {"annotations": {_TIME: str(now)}}
    return manifest("Pod", BEAT, spec, namespace="default", metadata=notes)


async def _beat_forever(client: ApiClient) -> None:
    while True:
        body = {"metadata": {"annotations": {_TIME: str(time.time())}}}
        try:
            await client.patch(_BEAT_PATH, body)
        except (aiohttp.ClientError, TimeoutError, UnexpectedAnswer):
            await asyncio.sleep(AGAIN_SECONDS)  # it is struck, or starts again
        await asyncio.sleep(BEAT_SECONDS)
