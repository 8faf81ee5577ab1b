"""The cluster as its watches tell it, and what intake and the binder have to hear of it.

Events in; objects to admit, names to remove and reports out. No I/O and no clock. Of an object that
changed several times since the last look only the newest form is given on, so that a burst costs
one admission; an object that was deleted and made again is removed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from coordinator.cluster.kubernetes.api.objects import (
    GroupStatus,
    PodObject,
    head_of,
    pod_of,
    spec_of,
    version_number,
)
from coordinator.cluster.kubernetes.state.foreign import ForeignPods
from coordinator.cluster.kubernetes.state.leaving import LeavingPods
from coordinator.cluster.kubernetes.state.legible import (
    LegibleObject,
    UnreadObject,
    legible_item,
    legible_parts,
)
from coordinator.cluster.kubernetes.state.pods import (
    UNBOUND,
    PodKey,
    PodRow,
    PodTable,
    Task,
    as_item,
    has_claims,
    reported_status,
    update,
    update_legible,
    usage_fingerprint,
)
from coordinator.cluster.kubernetes.state.reports import ReportLog, report
from coordinator.cluster.protocol import Phase, Report
from shared.errors import InvalidInput
from shared.model.groups import NATIVE, group_key
from shared.model.storage import Amounts

POD = "Pod"
NODE = "Node"
_OF_DIALECTS = ("PodGroup", "KaiPodGroup")
GROUPS = (*_OF_DIALECTS, NATIVE)


class ObjectKey(NamedTuple):
    """``kind`` as intake has it; ``namespace`` "" for cluster-wide kinds."""

    kind: str
    namespace: str
    name: str


@dataclass(slots=True)
class ObjectDelta:
    """Changes for intake, in this order: removals, then objects."""

    gone: list[ObjectKey] = field(default_factory=list)
    keys: list[ObjectKey] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    unread: list[tuple[ObjectKey, UnreadObject]] = field(default_factory=list)
    """Objects that are in quarantine since the last delta."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.keys or self.unread)


class MirrorObserver(Protocol):
    """Observer of pods' arrival, placement and end, beside the books."""

    def arrived(self, row: PodRow, now: float) -> None:
        """The pod is a task now."""
        ...

    def placed(self, row: PodRow, now: float) -> None:
        """The cluster has the pod on ``row.node``."""
        ...

    def ended(self, row: PodRow, now: float) -> None:
        """The pod ran to its end, or is gone."""
        ...

    def not_understood(self, pod: str, why: str) -> None: ...


class Mirror:
    def __init__(
        self,
        kinds: Iterable[str],
        *,
        ours: Callable[[str], bool],
        hold_seconds: float = 0.0,
        observer: MirrorObserver | None = None,
    ) -> None:
        """``kinds``: all that are followed. ``ours`` tells by a pod's schedulerName whether it is
        placed here. ``hold_seconds``: how long the node that somebody else chose for a pod is kept
        from our books, so that we decide for ourselves first (shadow)."""
        self._observer = observer
        self.pods = PodTable()
        self.foreign = ForeignPods()
        self.leaving = LeavingPods()
        self.reports = ReportLog()
        self._ours = ours
        self._hold = hold_seconds
        self._held: dict[str, PodRow] = {}
        self._unlisted = set(kinds)
        """Kinds whose first list is not whole yet."""
        self._known: dict[str, dict[tuple[str, str], str]] = {kind: {} for kind in self._unlisted}
        """Kind -> (namespace, name) -> uid of what exists."""
        self._listing: dict[str, set[tuple[str, str]]] = {}
        self._expected: dict[PodKey, str] = {}
        """Pods that intake has from before, and those that had nodes before it had them, with their
        uids, until we know which tasks they are."""
        self._new_to_intake: set[PodKey] = set()
        """The second kind of these: no task of the books can be one of them."""
        self._changed: dict[ObjectKey, msgspec.Raw | PodObject] = {}
        self._gone: dict[ObjectKey, None] = {}
        self._written: dict[ObjectKey, int] = {}
        """Objects that the books have as we wrote them -> the version that they got. What the
        watch has from before is not told any more."""
        self._kept_groups: dict[ObjectKey, str] = {}
        """PodGroups that were deleted before their pods -> their uid. Their pods go on running, so
        the job stays until they are gone."""
        self._recreated: dict[ObjectKey, None] = {}
        """Kept groups that exist again and were not taken yet (:meth:`take_recreated`)."""
        self._first_phases: dict[str, str] = {}
        """Uid of a PodGroup of the first list -> its phase there."""
        self.quarantine: dict[ObjectKey, UnreadObject] = {}
        """Objects that exist and cannot be read."""
        self._unread: list[ObjectKey] = []
        """Changes among these that intake has not heard of yet."""
        self.now = 0.0
        self.statement = ""
        """Ledger and epoch of the leader that we are."""
        self._late: list[PodRow] = []

    # --- what the watches say -----------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether everything was listed once."""
        return not self._unlisted

    @property
    def accounts_for_all(self) -> bool:
        """Whether what is not here is nowhere: everything was listed, and each pod that the books
        have from before, or that has its node from before, is a task here, or gone."""
        return self.complete and not self._expected

    @property
    def accounts_for_books(self) -> bool:
        """The same of the pods that the books have from before alone."""
        return self.complete and self._expected.keys() <= self._new_to_intake

    @property
    def waiting(self) -> int:
        """Number of objects that intake has not heard of yet."""
        return len(self._changed) + len(self._gone) + len(self._unread)

    def exists(self, key: ObjectKey) -> bool:
        return (key.namespace, key.name) in self._known.get(key.kind, ())

    def names(self, kind: str) -> list[str]:
        """Names of the existing objects of a cluster-wide kind."""
        return [name for _, name in self._known.get(kind, ())]

    def uid(self, key: ObjectKey) -> str:
        """The uid of what exists by this name; "" for nothing."""
        return self._known.get(key.kind, {}).get((key.namespace, key.name), "")

    def expect(self, keys: Iterable[tuple[ObjectKey, str]]) -> None:
        """Objects that intake has from before, with their uids: what is in no list is gone."""
        for key, uid in keys:
            if key.kind in self._known:
                self._known[key.kind].setdefault((key.namespace, key.name), uid)
            if key.kind == POD:
                self._expected[key[1:]] = uid

    def absent(self, kind: str) -> None:
        """The server does not have the kind."""
        self.begin_list(kind)
        self.end_list(kind)

    def begin_list(self, kind: str) -> None:
        self._listing[kind] = set()

    def end_list(self, kind: str) -> None:
        listed = self._listing.pop(kind, set())
        for namespace, name in [at for at in self._known[kind] if at not in listed]:
            self._remove(ObjectKey(kind, namespace, name))
        first = kind in self._unlisted
        self._unlisted.discard(kind)
        if kind == POD and first:
            self._expect_placed()
            # Deleted before we began: only now it is known which of them have no pods left.
            for group in [group for group in self._kept_groups if not self._members(group)]:
                del self._kept_groups[group]
                if not self.exists(group):
                    self._gone[group] = None

    def _members(self, group: ObjectKey) -> bool:
        """Whether there are pods of a PodGroup."""
        key = group_key(group.kind, f"{group.namespace}/{group.name}")
        return bool(self.pods.members.get(key))

    def _expect_placed(self) -> None:
        """Pods of the first list that are on nodes and that intake has yet to hear of: an empty
        ledger knows none of them, and would take their room for free."""
        for key, change in self._changed.items():
            if not isinstance(change, PodObject) or not spec_of(change.spec).node_name:
                continue
            if key[1:] not in self._expected:
                self._expected[key[1:]] = change.metadata.uid
                self._new_to_intake.add(key[1:])

    def take(self, kind: str, raw: msgspec.Raw) -> None:
        """Take an object as it is now. One that cannot be read is quarantined, alone: whoever may
        write an object may write anything into it, and no text may end or hide the others."""
        try:
            self._take(kind, raw)
        except Exception as error:
            self._quarantine(kind, legible_parts(raw), error)

    def _take(self, kind: str, raw: msgspec.Raw) -> None:
        if kind == POD:
            self._take_pod(pod_of(raw))
            return
        meta = head_of(raw).metadata
        key = ObjectKey(kind, meta.namespace, meta.name)
        self._note(key, meta.uid)
        self.quarantine.pop(key, None)
        if kind in _OF_DIALECTS and kind in self._unlisted:
            self._first_phases[meta.uid] = msgspec.json.decode(raw, type=GroupStatus).phase
        if not self._is_past(key, meta.resource_version):
            self._written.pop(key, None)
            self._changed[key] = raw.copy()  # a raw part holds the whole page that it is of

    def wrote(self, key: ObjectKey, version: str) -> None:
        """The books have an object as we wrote it, before the watch tells of it. An earlier form of
        it that the watch brings late would undo that in the books."""
        self._written[key] = version_number(version)
        change = self._changed.get(key)
        if isinstance(change, msgspec.Raw) and self._is_past(
            key, head_of(change).metadata.resource_version
        ):
            del self._changed[key]

    def _is_past(self, key: ObjectKey, version: str) -> bool:
        return version_number(version) < self._written.get(key, 0)

    def remove(self, kind: str, raw: msgspec.Raw) -> None:
        """An object that was deleted; ``raw`` is its last form."""
        try:
            meta = head_of(raw).metadata
            key, uid = ObjectKey(kind, meta.namespace, meta.name), meta.uid
        except msgspec.DecodeError:
            parts = legible_parts(raw)
            key, uid = ObjectKey(kind, parts.namespace, parts.name), parts.uid
        self._remove(key, uid)

    def _note(self, key: ObjectKey, uid: str) -> None:
        at = key.namespace, key.name
        if (listed := self._listing.get(key.kind)) is not None:
            listed.add(at)
        before = self._known[key.kind].get(at)
        if before is not None and before != uid:
            self._remove(key)
        if before != uid and key in self._kept_groups:
            self._recreated[key] = None
        self._known[key.kind][at] = uid

    def _remove(self, key: ObjectKey, uid: str = "") -> None:
        """``uid`` "": whichever there is."""
        objects = self._known[key.kind]
        before = objects.get((key.namespace, key.name))
        if before is None or uid not in ("", before):
            return
        del objects[key.namespace, key.name]
        self._changed.pop(key, None)
        self._written.pop(key, None)
        self.quarantine.pop(key, None)
        if key.kind == POD:
            self._expected.pop(key[1:], None)
            self._remove_pod(key)
        elif key.kind in GROUPS and (self._members(key) or POD in self._unlisted):
            self._kept_groups.setdefault(key, before)
        else:
            self._gone[key] = None

    # --- pods ---------------------------------------------------------------------------------

    def _take_pod(self, pod: PodObject) -> None:
        meta = pod.metadata
        key = ObjectKey(POD, meta.namespace, meta.name)
        self._note(key, meta.uid)
        self.quarantine.pop(key, None)
        row = self.pods.by_key.get(key[1:])
        if row is None or row.uid != meta.uid:
            row = self.pods.add(pod, ours=self._ours(spec_of(pod.spec).scheduler_name))
        elif not row.group:
            self.pods.note_group(row, pod)
        before = row.node, row.ended
        respecified = update(row, pod)
        self._observe(row, *before)
        self.leaving.take(row, meta, self.now)
        if row.was_pending and row.node and not before[0]:
            self._note_late(row)
        if not row.ours:
            self._expected.pop(row.key, None)
            self._count_foreign(row, pod)
            self._progress(row)
            return
        if row.ended:
            self.foreign.forget(row)
        if respecified and (self._has_task(row) or (not _over(row) and has_claims(pod))):
            pod.spec, claims = pod.spec.copy(), pod.status.resource_claim_statuses
            pod.status.resource_claim_statuses = claims.copy()
            self._changed[key] = pod
        self._progress(row)

    def _count_foreign(self, row: PodRow, pod: PodObject) -> None:
        spec, status = msgspec.json.decode(pod.spec), reported_status(pod)
        self.foreign.take(row, spec, status, usage_fingerprint(pod))
        if unread := self.foreign.take_unread(row):
            error = InvalidInput(unread[0], None, "not an amount; it counts as a full node")
            self.report_unread(ObjectKey(POD, *row.key), row.uid, error)

    def _note_late(self, row: PodRow) -> None:
        """The pod was bound since we lead: by another leader of ours if its statement says so."""
        leader = row.statement.rpartition("/")[0]
        if row.ours and leader not in ("", self.statement):
            self._late.append(row)

    def take_late(self) -> list[PodRow]:
        """Pods that were bound by a leader before this one while this one leads; each once."""
        late, self._late = self._late, []
        return late

    def take_first_phases(self) -> dict[str, str]:
        """Uid of each PodGroup that the first list had -> its phase, as a leader before this one
        may have written it; once."""
        phases, self._first_phases = self._first_phases, {}
        return phases

    def take_recreated(self) -> list[ObjectKey]:
        """PodGroups that were created anew under their pods, each once. Their jobs are the same,
        and nothing of these has changed."""
        recreated = list(self._recreated)
        self._recreated.clear()
        return recreated

    def _has_task(self, row: PodRow) -> bool:
        """Also one that ended while nobody looked: its task waits for its end."""
        return row.jid >= 0 or self._expected.get(row.key) == row.uid

    def _remove_pod(self, key: ObjectKey) -> None:
        row = self.pods.by_key.get(key[1:])
        if row is None:  # known from before our start alone
            self._gone[key] = None
            return
        self._held.pop(row.uid, None)
        self.foreign.forget(row)
        self.leaving.forget(row)
        ended = row.ended
        last = self.pods.remove(row)
        self._observe(row, row.node, ended)
        report(row, self.reports, node="")
        if row.ours:
            self._gone[key] = None
        if last:
            self._end_groups(row.group)

    def _end_groups(self, group: str) -> None:
        """The last pod of a group that was deleted before is gone."""
        native = group.startswith(f"{NATIVE}/")
        namespace, _, name = group.removeprefix(f"{NATIVE}/").partition("/")
        for kind in (NATIVE,) if native else _OF_DIALECTS:
            key = ObjectKey(kind, namespace, name)
            self._recreated.pop(key, None)
            if self._kept_groups.pop(key, None) is not None and not self.exists(key):
                self._gone[key] = None

    def _observe(self, row: PodRow, node: str, ended: bool) -> None:
        """``node``, ``ended``: as they were before the event."""
        if self._observer is None or row.jid < 0:
            return
        if row.node != node:
            self._observer.placed(row, self.now)
        if row.ended and not ended:
            self._observer.ended(row, self.now)

    def _progress(self, row: PodRow) -> None:
        """Report what is new of the pod."""
        if row.node and row.node != row.reported_node and self._holds(row):
            return
        self._held.pop(row.uid, None)
        report(row, self.reports, node=row.node)

    # --- the node that somebody else chose, while we decide ourselves ---------------------------

    def _holds(self, row: PodRow) -> bool:
        if not self._hold or row.decided or row.gone or not row.was_pending:
            return False
        if not row.since:
            row.since = self.now
        if self.now - row.since >= self._hold:
            return False
        self._held[row.uid] = row
        return True

    def decided(self, row: PodRow, node: str) -> None:
        """We placed the pod ourselves: the books have it there."""
        row.decided = True
        row.reported_node, row.reported = node, max(row.reported, Phase.BOUND)
        self._progress(row)

    def bound(self, row: PodRow, node: str) -> None:
        """A binding of ours was made: the books hear of it by its answer, and not again by the
        watch."""
        if not row.gone:
            row.reported_node, row.reported = node, max(row.reported, Phase.BOUND)

    def undecided(self, row: PodRow) -> None:
        """A placement of ours that took place nowhere but in our books is taken back: the pod waits
        again, there as the next incarnation of its task."""
        self.reports.add(Report.FAILED, row, row.reported_node)
        row.incarnation += 1
        row.decided, row.reported_node, row.reported = False, "", UNBOUND

    def tick(self, now: float) -> None:
        """Let go of what was kept back for long enough."""
        self.now = now
        for row in [row for row in self._held.values() if now - row.since >= self._hold]:
            self._progress(row)

    # --- objects that cannot be read -------------------------------------------------------------

    def quarantined(self, key: ObjectKey, item: dict[str, Any], error: Exception) -> None:
        """Intake cannot read the object: it failed there, with this error."""
        if self.exists(key):
            self._quarantine(key.kind, legible_item(item), error)

    def report_unread(self, key: ObjectKey, uid: str, error: Exception) -> None:
        """The object, or a part of it, cannot be read."""
        self.quarantine[key] = UnreadObject(uid, error)
        self._unread.append(key)

    def _quarantine(self, kind: str, parts: LegibleObject, error: Exception) -> None:
        key = ObjectKey(kind, parts.namespace, parts.name)
        if parts.uid:
            self._note(key, parts.uid)
        self._changed.pop(key, None)
        self.report_unread(key, parts.uid, error)
        if kind == POD and parts.uid:
            self._take_legible(key, parts)

    def _take_legible(self, key: ObjectKey, parts: LegibleObject) -> None:
        """A pod that is no task yet counts as somebody else's. A task stays one, as it was read
        before, and what becomes of it on its node is reported."""
        row = self.pods.by_key.get(key[1:])
        if row is None or row.uid != parts.uid:
            row = self.pods.add_unread(parts.uid, parts.namespace, parts.name)
        self._expected.pop(row.key, None)
        update_legible(row, parts)
        if row.jid < 0:
            row.ours = False
            self.foreign.take(row, parts.spec, None, 0)
        self._progress(row)

    # --- what intake hears ----------------------------------------------------------------------

    def take_delta(self, limit: int) -> ObjectDelta:
        """The next removals and objects, at most ``limit`` of each. Pods come last, and only once
        everything that they may refer to was listed."""
        delta = ObjectDelta()
        for key in list(self._gone)[:limit]:
            del self._gone[key]
            delta.gone.append(key)
        others_first = self._unlisted - {POD}
        chosen: list[ObjectKey] = []
        for key in self._changed:
            if key.kind == POD and others_first:
                continue
            chosen.append(key)
            if len(chosen) >= limit:
                break
        for key in chosen:
            change = self._changed.pop(key)
            try:
                item = self._item(key, change)
            except Exception as error:
                self._quarantine(key.kind, legible_parts(change), error)
            else:
                delta.keys.append(key)
                delta.items.append(item)
        unread, self._unread = self._unread, []
        delta.unread += [(key, self.quarantine[key]) for key in unread if key in self.quarantine]
        return delta

    def _item(self, key: ObjectKey, change: msgspec.Raw | PodObject) -> dict[str, Any]:
        if isinstance(change, PodObject):
            return as_item(change, self.pods.by_key[key[1:]].resized)
        item: dict[str, Any] = msgspec.json.decode(change)
        metadata = item.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
            if (uid := self._kept_groups.get(key)) is not None:
                metadata["uid"] = uid  # made again while its pods live: it is still their job
        return item

    def put_back(self, delta: ObjectDelta, positions: Sequence[int]) -> None:
        """Objects whose names are not free yet: they are given again, unless they changed."""
        for i in positions:
            key = delta.keys[i]
            if key in self._changed or key in self._gone or not self.exists(key):
                continue
            if self._is_past(key, delta.items[i]["metadata"].get("resourceVersion", "")):
                continue
            self._changed[key] = msgspec.Raw(msgspec.json.encode(delta.items[i]))

    def admitted(self, key: PodKey, uid: str, task: Task | None) -> None:
        """Intake has the pod as this task; None: it has it, and as none."""
        row = self.pods.by_key.get(key)
        if row is None or row.uid != uid:
            return  # it is gone meanwhile, which intake hears next
        self._expected.pop(key, None)
        if task is None:
            return
        if (row.jid, row.tix) != task:
            self.pods.named(row, task)
            if self._observer is not None:
                self._observer.arrived(row, self.now)
        self._progress(row)

    def resized(self, item: dict[str, Any], booked: Amounts | None) -> None:
        """Intake has a pod of ours with other amounts than it has now: ``booked``; None: with the
        same ones."""
        metadata = item["metadata"]
        row = self.pods.by_key.get((metadata["namespace"], metadata["name"]))
        if row is None or row.uid != metadata["uid"]:
            return
        if booked is None:
            self.foreign.forget(row)
        else:
            self.foreign.differs(row, item["spec"], item.get("status"), booked)

    def refused(self, item: dict[str, Any], why: str) -> None:
        """Intake does not understand the pod: whatever it uses is somebody else's."""
        metadata = item["metadata"]
        at = metadata["namespace"], metadata["name"]
        self._expected.pop(at, None)
        row = self.pods.by_key.get(at)
        if row is not None and row.jid < 0:
            row.ours = False
            self.foreign.take(row, item["spec"], item.get("status"), 0)
            if self._observer is not None:
                self._observer.not_understood(f"{row.namespace}/{row.name}", why)


def _over(row: PodRow) -> bool:
    """Whether a pod that is new to us has nothing to place: it ended before. One of a group still
    counts towards its gang if it ended well."""
    return row.phase is Phase.FAILED or (row.phase is Phase.SUCCEEDED and not row.group)
