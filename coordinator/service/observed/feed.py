"""From a cluster that is watched to intake: its objects are admitted as if they had been submitted.

An object that intake does not understand holds back nobody else: it is reported, and what a pod
uses is counted as somebody else's.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import orjson
import structlog

from coordinator.cluster.kubernetes.state.legible import UnreadObject
from coordinator.cluster.kubernetes.state.mirror import POD, ObjectDelta, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodKey, Task
from coordinator.errors import Problem
from coordinator.intake.admission.documents import DEFAULT_QUEUE, body_of
from coordinator.intake.admission.pods import CHANGED_IN_PLACE, GROUP_AFTER_BINDING
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import BY_KIND, KAI_POD_GROUP, NODE
from coordinator.intake.intake import Intake
from coordinator.intake.pending_limit import TOO_MANY
from coordinator.intake.writer import IntakeFull, IntakeWriter
from coordinator.ledger_refusals import StoreRefused
from shared.errors import Refusal
from shared.manifests.kai.groups import STAMPS
from shared.model.groups import NATIVE_KINDS
from shared.model.storage import Amounts

AGAIN_SECONDS = 0.1
"""Pause before an object is offered again whose name is not free yet, or for which there was no
room."""
FOREIGN_SECONDS = 0.2
"""Interval of looks for changes of what other schedulers' pods use."""
_LATER = ("AlreadyExists", "Conflict", "TooManyRequests", TOO_MANY)
"""Reasons of refusals that pass by themselves."""

_LONGEST_WHY = 300

log = structlog.get_logger(__name__)


class ObjectSource(Protocol):
    """A cluster whose objects are watched."""

    async def follow_forever(self, job_uid: Callable[[int], str | None]) -> None: ...

    def expect(self, known: list[tuple[ObjectKey, str]]) -> None: ...

    async def changes(self) -> ObjectDelta: ...

    def admitted(self, pods: list[tuple[PodKey, str, Task | None]]) -> None: ...

    def put_back(self, delta: ObjectDelta, positions: Sequence[int]) -> None: ...

    def refused(self, item: dict[str, object], why: str) -> None: ...

    def quarantined(self, key: ObjectKey, item: dict[str, Any], error: Exception) -> None: ...

    def resized(self, item: dict[str, Any], booked: Amounts | None) -> None: ...

    def foreign_changed(self) -> bool: ...

    def nodes_came(self, names: Iterable[str]) -> None: ...


class ClusterFeed:
    def __init__(
        self,
        source: ObjectSource,
        *,
        intake: Intake,
        writer: IntakeWriter,
        kinds: Iterable[str],
        observe: Callable[[], Awaitable[None]],
        hold_turns: Callable[[], AbstractContextManager[None]],
        job_uid: Callable[[int], str | None],
        refusals: Counter[str],
        not_understood: Callable[[ObjectKey, dict[str, Any], str], None],
    ) -> None:
        """``kinds``: those that the source follows. ``observe`` stores what pods that are not ours
        use; inside ``hold_turns`` nothing is placed. ``job_uid``: the uid that the books have for a
        job. ``not_understood`` hears of each object that intake refuses, with the reason."""
        self._source = source
        self._intake = intake
        self._writer = writer
        self._kinds = frozenset(kinds)
        self._observe = observe
        self._hold_turns = hold_turns
        self._job_uid = job_uid
        self._not_understood = not_understood
        self._refusals_by_kind = refusals
        self._later: deque[tuple[ObjectDelta, list[int]]] = deque()
        self._observing = asyncio.Lock()

    async def run_forever(self) -> None:
        self._source.expect(self._known())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._source.follow_forever(self._job_uid))
            group.create_task(self._take_forever())
            group.create_task(self._offer_again_forever())
            group.create_task(self._observe_forever())

    def _known(self) -> list[tuple[ObjectKey, str]]:
        """Objects in intake of the followed kinds, with their uids. An object that is in no list is
        gone."""
        objects = []
        for key, document in self._intake.documents.items():
            if key.kind in self._kinds and key != DEFAULT_QUEUE and document.deleting is None:
                uid = orjson.loads(document.body)["metadata"].get("uid", "")
                objects.append((ObjectKey(*key), uid))
        return objects

    async def _take_forever(self) -> None:
        while True:
            delta = await self._source.changes()
            if delta.gone:
                await self._remove(delta.gone)
            for key, unread in delta.unread:
                self._report_unread(key, unread)
            pairs = zip(delta.keys, delta.items, strict=True)
            nodes = {i: key.name for i, (key, item) in enumerate(pairs) if self._offers(key, item)}
            if nodes:
                # What others use of a node, or of a resource, cannot be stored before it is there.
                # Until it is, nobody is placed: the node would seem empty.
                with self._hold_turns():
                    await self._admit(delta, [*nodes])
                    self._source.nodes_came(nodes.values())
                    await self._observe_changes()
            others = [i for i in range(len(delta.keys)) if i not in nodes]
            if others:
                # Pods of others may have come before these. A pod that is admitted ahead of what
                # they use would be placed on it.
                if any(delta.keys[i].kind == POD for i in others):
                    await self._observe_changes()
                await self._admit(delta, others)

    async def _offer_again_forever(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            for _ in range(len(self._later)):
                self._source.put_back(*self._later.popleft())

    async def _observe_forever(self) -> None:
        while True:
            await asyncio.sleep(FOREIGN_SECONDS)
            await self._observe_changes()

    async def _observe_changes(self) -> None:
        # One at a time: what is stored is absolute, and an older look must not come last.
        async with self._observing:
            if self._source.foreign_changed():
                await self._observe()

    # --- one delta ------------------------------------------------------------------------------

    async def _remove(self, gone: list[ObjectKey]) -> None:
        keys = [Key(*key) for key in gone if Key(*key) in self._intake.documents]
        while keys:
            try:
                admission = await self._writer.apply(partial(self._intake.remove_all, keys))
            except StoreRefused:  # logged and counted
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            for refusal in admission.refused:
                log.warning("An object is gone that is still needed", why=refusal.message)
            return

    def _offers(self, key: ObjectKey, item: dict[str, Any]) -> bool:
        """Whether it is a new node, or one with a resource that it did not offer before."""
        if key.kind != NODE.kind:
            return False
        registry = self._intake.registry
        node = registry.nodes.get(key.name)
        if node is None or Key(*key) not in self._intake.documents:
            return True
        offered = {slot for slot, _ in node.allocatable}
        status = item.get("status")
        amounts = status.get("allocatable") if isinstance(status, dict) else None
        named = amounts.items() if isinstance(amounts, dict) else ()
        return any(
            registry.slots.find(name) not in offered for name, amount in named if str(amount) != "0"
        )

    async def _admit(self, delta: ObjectDelta, among: Sequence[int]) -> None:
        """Admit what of these positions can be admitted now; objects whose names are still taken
        are offered again."""
        taken = [i for i in among if self._is_leaving(delta.keys[i])]
        if taken:
            self._later.append((delta, taken))
        leaving = set(taken)
        positions = [i for i in among if i not in leaving]
        # After a change of leader almost every pod is one that intake has as it is: not to read
        # 100,000 of them again took a quarter off the start.
        placed = [i for i in positions if self._has_pod(delta.keys[i], delta.items[i])]
        self._name_pods(delta, placed)
        had = set(placed)
        positions = [i for i in positions if i not in had]
        # A refusal names its object by the written kind and the name, and a group of Kubernetes'
        # own may have both in common with one of the policy's dialect.
        native = {i for i in positions if delta.keys[i].kind in NATIVE_KINDS}
        for part in (sorted(native), [i for i in positions if i not in native]):
            if part:
                await self._submit(delta, part)

    async def _submit(self, delta: ObjectDelta, positions: list[int]) -> None:
        try:
            items = [self._with_stamps(delta.keys[i], delta.items[i]) for i in positions]
            admission = await self._writer.submit(items)
        except (IntakeFull, StoreRefused, Problem) as error:
            log.warning("The ledger takes no objects now", why=str(error))
            self._later.append((delta, positions))
            return
        except Exception as error:
            await self._submit_apart(delta, positions, error)
            return
        refused = self._refusals(delta, positions, admission)
        admitted = [i for i in positions if i not in refused]
        self._report_changed(delta, admitted, admission)
        self._name_pods(delta, admitted)

    async def _submit_apart(
        self, delta: ObjectDelta, positions: list[int], error: Exception
    ) -> None:
        """One of these objects, or several, made intake fail, which kept nothing of any. Find them
        by halves: few are such, and each is quarantined alone."""
        if len(positions) == 1:
            key, item = delta.keys[positions[0]], delta.items[positions[0]]
            self._source.quarantined(key, item, error)
            return
        half = len(positions) // 2
        await self._submit(delta, positions[:half])
        await self._submit(delta, positions[half:])

    def _report_changed(
        self, delta: ObjectDelta, positions: list[int], admission: Admission
    ) -> None:
        """Tell of pods that the cluster changed where they are: in the books they count as they
        were, and what they use beside that counts as others' use."""
        for i in positions:
            kind, namespace, name = delta.keys[i]
            if kind == POD:
                booked = admission.changed_pods.get(f"{namespace}/{name}")
                self._source.resized(delta.items[i], booked)
        for notice in admission.notices:
            if notice.message in (CHANGED_IN_PLACE, GROUP_AFTER_BINDING):
                log.warning("A pod changed", pod=notice.name, pods=notice.count, why=notice.message)
                at = {_named(delta.keys[i]): i for i in positions}[notice.kind, notice.name]
                self._not_understood(delta.keys[at], delta.items[at], notice.message)

    def _has_pod(self, key: ObjectKey, item: dict[str, Any]) -> bool:
        """Whether intake has this pod, word for word."""
        document = self._intake.documents.get(Key(*key)) if key.kind == POD else None
        try:
            return document is not None and document.body == body_of(item)
        except TypeError:  # a number that JSON does not have: intake quarantines it
            return False

    def _with_stamps(self, key: ObjectKey, item: dict[str, Any]) -> dict[str, Any]:
        """A PodGroup of KAI's with the times that are kept on it here: what the cluster has of them
        may be from before they were written."""
        document = self._intake.documents.get(Key(*key))
        if key.kind != KAI_POD_GROUP.kind or document is None:
            return item
        ours, theirs = document.object()["metadata"], item["metadata"]
        if ours.get("uid") != theirs.get("uid"):
            return item
        stamps = {n: text for n, text in (ours.get("annotations") or {}).items() if n in STAMPS}
        others = {
            n: text for n, text in (theirs.get("annotations") or {}).items() if n not in STAMPS
        }
        return item | {"metadata": theirs | {"annotations": others | stamps}}

    def _is_leaving(self, key: ObjectKey) -> bool:
        document = self._intake.documents.get(Key(*key))
        return document is not None and document.deleting is not None

    def _refusals(
        self, delta: ObjectDelta, positions: list[int], admission: Admission
    ) -> frozenset[int]:
        """The positions of what was refused."""
        if not admission.refused:
            return frozenset()
        at = {_named(delta.keys[i]): i for i in positions}
        refused = {at[refusal.kind, refusal.name]: refusal for refusal in admission.refused}
        later = [i for i, refusal in refused.items() if refusal.reason in _LATER]
        if later:
            self._later.append((delta, later))
        for i, refusal in refused.items():
            if refusal.reason not in _LATER:
                self._refuse(delta.keys[i], delta.items[i], refusal)
        return frozenset(refused)

    def _refuse(self, key: ObjectKey, item: dict[str, Any], refusal: Refusal) -> None:
        self._refusals_by_kind[key.kind] += 1
        why = f"{refusal.field}: {refusal.message}" if refusal.field else refusal.message
        log.warning("An object is not understood", kind=key.kind, name=refusal.name, why=why)
        self._not_understood(key, item, why)
        if key.kind == POD:
            self._source.refused(item, why)

    def _report_unread(self, key: ObjectKey, unread: UnreadObject) -> None:
        self._refusals_by_kind[key.kind] += 1
        log.error(
            "An object cannot be read and is quarantined",
            kind=key.kind,
            name=f"{key.namespace}/{key.name}",
            exc_info=unread.error,
        )
        why = (
            f"it cannot be read ({type(unread.error).__name__}: {str(unread.error)[:_LONGEST_WHY]})"
            ", so nothing of it is taken but a pod's room on its node; change it or take it away, "
            "and tell who runs Quadrant, whose log says more"
        )
        self._not_understood(key, {"metadata": {"uid": unread.uid}}, why)

    def _name_pods(self, delta: ObjectDelta, positions: Iterable[int]) -> None:
        pods = self._intake.registry.pods
        named: list[tuple[PodKey, str, Task | None]] = []
        for i in positions:
            kind, namespace, name = delta.keys[i]
            if kind == POD:
                task = pods.get(f"{namespace}/{name}")
                uid = delta.items[i]["metadata"]["uid"]
                unpacked = None if task is None else unpack_task(task)
                named.append(((namespace, name), uid, unpacked))
        if named:
            self._source.admitted(named)


def _named(key: ObjectKey) -> tuple[str, str]:
    """Kind and name of an object as a refusal has them."""
    kind = BY_KIND.get(key.kind)
    path = f"{key.namespace}/{key.name}" if key.namespace else key.name
    return (key.kind if kind is None else kind.written), path
