"""Intake: from submitted objects to the operations that make them durable.

No I/O and no clock. :meth:`Intake.admit` validates each object of a list by itself, in an order in
which references come first (priority classes, queues, nodes, PodGroups, then Jobs and Pods),
whatever their order in the list. The result must become durable before anything else is done with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from coordinator.intake.admission import termination
from coordinator.intake.admission.cluster import (
    admit_hyper_node,
    admit_inert,
    admit_node,
    admit_object,
    admit_priority_class,
)
from coordinator.intake.admission.deletion import purge, remove
from coordinator.intake.admission.documents import (
    DEFAULT_QUEUE,
    NAMESPACED,
    Item,
    body_of,
    default_queue,
    documents_of,
    joined_documents,
    repeated,
)
from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.gangs import admit_job, admit_pod_group
from coordinator.intake.admission.kai import (
    admit_job_to_leaf,
    admit_kai_pod_group,
    admit_kai_queue,
    admit_kai_topology,
    admit_pod_to_leaf,
    as_kai_pod,
    keep_unread,
)
from coordinator.intake.admission.late_groups import keep_apart, move_to_groups
from coordinator.intake.admission.native_groups import (
    admit_native_group,
    settling_trees,
    with_group_defaults,
)
from coordinator.intake.admission.pods import admit_pod, join_members
from coordinator.intake.admission.queue_gate import (
    document_without_gate,
    with_gate,
    without_gate,
)
from coordinator.intake.admission.queues import admit_queues
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.restore import decode, mark_deleting, take_up
from coordinator.intake.admission.result import Admission, merged
from coordinator.intake.admission.step import AdmissionStep, key_of, kind_of
from coordinator.intake.documents.document import Document, Key
from shard_worker.session_model.queue_totals import opens_gate
from shared.errors import InvalidInput, Refusal
from shared.ledger.entries.snapshot import Snapshot
from shared.manifests.fields.metadata import GROUP_DEADLINE, LATE_GROUP
from shared.manifests.kubernetes.groups import (
    CompositePodGroupManifest,
    NativePodGroupManifest,
)
from shared.manifests.kubernetes.inert import InertObject, without_secrets
from shared.manifests.kubernetes.objects import NodeManifest, PodManifest
from shared.manifests.parse import Manifest, parse
from shared.manifests.text.bounds import checking_values
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest, QueueManifest
from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
from shared.model.model import PriorityClass, WorldObject
from shared.model.topology import HyperNode
from shared.policy.model import Dialect
from shared.slices import Steps, at_once

FEW_BYTES = 8 << 10
"""An object up to this size cannot exceed the limit on values, so they need not be counted."""

GROUP_WAIT_SECONDS = 10.0
"""KAI's pod grouper and Volcano's PodGroup controller name a group within a second, or some under
load."""

_OWNERS = b'"ownerReferences"'

_KAI: dict[type, Callable[[AdmissionStep, Any], None]] = {
    KaiTopology: admit_kai_topology,
    KaiQueue: admit_kai_queue,
    KaiPodGroup: admit_kai_pod_group,
}
"""Handlers of KAI's kinds: a PodGroup is held against the queues and topologies of its list."""
_JUDGES: dict[type, Callable[[AdmissionStep, Any], None]] = {
    PriorityClass: admit_priority_class,
    HyperNode: admit_hyper_node,
    NodeManifest: admit_node,
    **{kind: admit_object for kind in get_args(WorldObject) if kind not in _KAI},
    **_KAI,
    InertObject: admit_inert,
    PodGroupManifest: admit_pod_group,
    CompositePodGroupManifest: admit_native_group,
    NativePodGroupManifest: admit_native_group,
    JobManifest: admit_job,
    PodManifest: admit_pod,
}
"""In the order of admission. Queues, whose order among themselves matters, come before nodes."""

_JUDGES_OF_KAI = _JUDGES | {JobManifest: admit_job_to_leaf, PodManifest: admit_pod_to_leaf}

_OF_VOLCANO: tuple[type, ...] = (QueueManifest, PodGroupManifest, HyperNode)
"""Kinds that nothing looks at under a policy of KAI's."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Parsed objects of a list, each by itself."""

    count: int
    """Number of all objects, the refused ones included."""
    items: list[Item]
    refused: list[Refusal]


class Intake:
    """The accepted names and the next numbers. ``observe`` also takes what an observed cluster has:
    pods with a node, and creation times as written (``replay``)."""

    def __init__(
        self,
        *,
        observe: bool = False,
        images: bool | None = None,
        ours: frozenset[str] | None = None,
        dialect: Dialect = Dialect.VOLCANO,
        flat: bool = False,
        dated: bool = False,
        group_wait: float | None = 0.0,
    ) -> None:
        """``dialect``: of the policy in force. ``flat``: it counts no queue above another.
        ``group_wait``: how many seconds a pod without a group waits for a controller to name one;
        None: :data:`GROUP_WAIT_SECONDS`, once a PodGroup with an owner shows such a controller.
        ``ours``: the scheduler names that are ours; None: all. ``dated``: take creation times as
        written (default: as ``observe``). ``images``: keep which images nodes have and tasks need
        (default: as ``observe``). Tasks with different images are then in different classes."""
        self._images = observe if images is None else images
        self._dialect, self._flat = dialect, flat
        self.registry = self._empty()
        self._observe = observe
        self._dated = dated or observe
        self._ours = ours
        self._group_wait, self._sees_grouper = group_wait, False
        self.node_of: Callable[[str, str], str] = lambda namespace, name: ""
        """Returns the node of a pod, "" for none; replaced by the owner of that knowledge."""

    @property
    def is_observed(self) -> bool:
        """Whether the objects are those of a cluster that is watched."""
        return self._dated

    def _empty(self) -> Registry:
        return Registry(images=self._images, dialect=self._dialect, flat=self._flat)

    @property
    def documents(self) -> dict[Key, Document]:
        """Documents of all admitted objects, durable or not yet."""
        return self.registry.documents

    def admit(
        self,
        items: Sequence[object],
        now: float,
        *,
        atomic: bool = False,
        keep: bool = True,
        planting: bool = True,
    ) -> Admission:
        """As :meth:`admitting`, in one step."""
        return at_once(self.admitting(items, now, atomic=atomic, keep=keep, planting=planting))

    def admitting(
        self,
        items: Sequence[object],
        now: float,
        *,
        atomic: bool = False,
        keep: bool = True,
        planting: bool = True,
    ) -> Steps[Admission]:
        """Admit a list of objects. With ``atomic`` one refusal refuses the whole list; with
        ``keep=False`` it is a dry run. With ``planting=False`` pods of PodGroups that do not exist,
        also not after this list, are refused.

        The queue ``default`` is created with the first list, also with an empty one. Between two
        steps reads are allowed, but nothing else may be admitted.
        """
        parsed = yield from self.parsing(items)
        return (yield from self.judging(parsed, now, atomic=atomic, keep=keep, planting=planting))

    def parsing(self, items: Sequence[object]) -> Steps[Parsed]:
        """Parse each object by itself. Nothing is admitted yet."""
        refused: list[Refusal] = []
        parsed: list[Item] = []
        for item in items:
            yield
            sent, manifest = item, self._parse(item)
            if type(manifest) is PodManifest and manifest.annotations and not self._observe:
                sent = with_gate(manifest, item, self.documents)
                manifest = manifest if sent is item else self._parse(sent)
            elif isinstance(manifest, NativePodGroupManifest) and not self._dated:
                sent = with_group_defaults(manifest, item, self.registry)
                manifest = self._parse(sent)
            if isinstance(manifest, Refusal):
                refused.append(manifest)
                continue
            assert type(sent) is dict
            written = without_secrets(sent)
            plain = type(manifest) is PodManifest and not (
                manifest.uid or manifest.template.node_name
            )
            try:
                if not (plain or self._observe) and (stripped := self._repeated(manifest, sent)):
                    yield
                    written, again = stripped, self._parse(stripped)
                    assert not isinstance(again, Refusal), "what is left out is never required"
                    manifest = again
                body = body_of(written)
                if len(body) > FEW_BYTES:  # reading a large one took a slice, and so do these
                    yield
                    yield from checking_values(written)
                    yield
                parsed.append((manifest, written, body))
            except InvalidInput as error:
                refused.append(error.refusal(kind_of(manifest), key_of(manifest)))
        return Parsed(len(items), parsed, refused)

    def _parse(self, item: object) -> Manifest | Refusal:
        """Parse one object; a pod belongs to the group that the policy's dialect reads of it."""
        manifest = parse(item)
        if self._dialect is not Dialect.KAI or type(manifest) is not PodManifest:
            return manifest
        try:
            return as_kai_pod(manifest, item)
        except InvalidInput as error:
            return error.refusal(kind_of(manifest), key_of(manifest))

    def judging(
        self,
        parsed: Parsed,
        now: float,
        *,
        atomic: bool = False,
        keep: bool = True,
        planting: bool = True,
    ) -> Steps[Admission]:
        """Validate the parsed objects; see :meth:`admitting`."""
        items_parsed, out = parsed.items, Admission(refused=parsed.refused)
        manifests: dict[type, list[Any]] = {}
        for manifest, _, _ in items_parsed:
            manifests.setdefault(type(manifest), []).append(manifest)
        draft = Draft(self.registry)
        if self._group_wait is None and not self._sees_grouper:
            self._sees_grouper = any(
                _has_owner(manifest, sent) for manifest, sent, _ in items_parsed
            )
        step = self._step(draft, now, planting=planting)
        if KaiQueue in manifests:
            step.sent = {id(m): sent for m, sent, _ in items_parsed if type(m) is KaiQueue}
        unread = _OF_VOLCANO if self._dialect is Dialect.KAI else ()
        for kind in unread:
            yield from _each(step, keep_unread, manifests.pop(kind, ()))
        for kind, judge in (_JUDGES_OF_KAI if unread else _JUDGES).items():
            yield from _each(step, judge, manifests.get(kind, ()))
            if kind is NativePodGroupManifest and step.tree_nodes:
                yield from settling_trees(step)
            if kind is PriorityClass and not unread:
                admit_queues(step, manifests.get(QueueManifest, ()))
        yield
        join_members(step)
        yield
        out.refused += step.refused
        # Before anything of the draft is kept: dropping it is all that refusing the whole list
        # takes.
        if atomic and out.refused:
            return Admission(refused=out.refused)
        documents = yield from documents_of(step, items_parsed, self.documents)
        if DEFAULT_QUEUE not in self.documents and not unread:
            documents.setdefault(DEFAULT_QUEUE, default_queue(now))
        documents |= joined_documents(step, documents, self.documents)
        out.documents = list(documents.values())
        out.accepted = parsed.count - len(out.refused)
        out.unchanged = step.unchanged
        out.notices = list(step.notices.values())
        out.placed = step.placed
        out.changed_pods = step.changed_pods
        yield from self._collect(draft, out)
        if keep:
            draft.keep()
            self.documents.update(documents)
        return out

    def _step(self, draft: Draft, now: float, *, planting: bool = True) -> AdmissionStep:
        return AdmissionStep(
            draft,
            now,
            self._observe,
            self._dated,
            planting,
            self._ours,
            self._dialect,
            self.node_of,
            self._waits_for_groups(),
        )

    def _waits_for_groups(self) -> float:
        """How many seconds a new pod without a group waits for a controller to name one."""
        if self._group_wait is not None:
            return self._group_wait
        return GROUP_WAIT_SECONDS if self._sees_grouper else 0.0

    def _repeated(self, manifest: Manifest, sent: dict[str, Any]) -> dict[str, Any] | None:
        return repeated(manifest, sent, self.documents, self.node_of)

    def _collect(self, draft: Draft, out: Admission) -> Steps[None]:
        out.ops += yield from draft.operations()
        out.classes = {cid: cls for cls, cid in draft.classes.changed.items()}
        out.nodes = list(draft.nodes.changed.values())
        out.queues = list(draft.queues.changed.values())
        out.hyper_nodes = list(draft.hyper_nodes.changed.values())
        out.objects = list(draft.objects.changed.values())
        out.jobs = list(draft.jobs.changed.values())

    # --- deletion -----------------------------------------------------------------------------

    def remove(
        self, kind: str, namespace: str, name: str, now: float, *, keep: bool = True
    ) -> Admission:
        """Delete one object; an unknown one, or one that others need, is refused.

        A PodGroup or Job is deleted with all its members; one of Kubernetes' own PodGroups without
        them, once they have ended. Deleting a member of a PodGroup keeps the rest
        (``tasks_gone``). The names are free after :meth:`purge`.
        """
        key = Key(kind, namespace if kind in NAMESPACED else "", name)
        return remove(self.registry, key, now, keep=keep, protect=not self._dated)

    def remove_all(self, keys: Iterable[Key], now: float) -> Admission:
        """Delete these objects, as :meth:`remove` does; what cannot be deleted is refused alone."""
        protect = not self._dated
        return merged(remove(self.registry, key, now, keep=True, protect=protect) for key in keys)

    def purge(
        self, jids: Sequence[int], pods: Iterable[tuple[int, int]], now: float | None = None
    ) -> Admission:
        """Remove deleted jobs and members (jid, tix) whose last task has left. Jobs that were
        stopped to restart do so now. ``now`` is the end time of those that finish with this call;
        None: the time of their stop request."""
        out = purge(self.registry, jids, pods)
        for key in out.jobs_ended:
            document = self.documents[key]
            draft = Draft(self.registry)
            following = termination.following(draft, document, now)
            self._keep(draft, out, following)
        return out

    # --- the controller of Jobs ---------------------------------------------------------------

    def end(self, key: Key, jid: int, state: dict[str, Any]) -> Admission:
        """Stop this incarnation of a Job; ``state`` says what follows."""
        return termination.end(self.registry, key, jid, state)

    def note(self, key: Key, jid: int, state: dict[str, Any]) -> Admission:
        """Store the state of this incarnation of a Job."""
        return termination.note(self.registry, key, jid, state)

    def grow(self, key: Key, jid: int, roles: list[str]) -> Admission:
        """Create roles of a Job that depended on others."""
        document = self.documents.get(key)
        # The Job may have begun anew since the controller judged it.
        if document is None or document.jid != jid:
            return Admission()
        draft = Draft(self.registry)
        out = termination.grow(draft, document, roles)
        if out.documents:
            self._keep(draft, out, *out.documents)
        return out

    def remove_gates(self, jid: int, tasks: Sequence[int]) -> Admission:
        """Take Volcano's scheduling gate off these pods of a job, as far as they still have it."""
        job = self.registry.jobs.get(jid)
        tasks = [] if job is None else [tix for tix in tasks if opens_gate(job.role_of(tix))]
        if job is None or not tasks:
            return Admission()
        draft, out = Draft(self.registry), Admission()
        draft.jobs[jid] = without_gate(job, tasks)
        keys = [Key("Pod", job.namespace, job.pod_name(tix)) for tix in tasks]
        pods = [self.documents[key] for key in keys if key in self.documents]
        self._keep(draft, out, *map(document_without_gate, pods))
        return out

    def regroup(
        self, move: Sequence[int], apart: Sequence[int], expired: Sequence[int], now: float
    ) -> Admission:
        """Move the pods of these jobs of one to the groups that they name by now; those of
        ``apart`` stay jobs of their own, and those of ``expired``, whose group nobody named in
        time, become such. What cannot be moved yet stays as it is."""
        draft, out = Draft(self.registry), Admission()
        step = self._step(draft, now)
        documents = move_to_groups(step, self.registry, move, self._parse, out)
        keep_apart(draft, apart, LATE_GROUP)
        keep_apart(draft, expired, GROUP_DEADLINE)
        documents += joined_documents(step, {}, self.documents).values()
        self._keep(draft, out, *documents)
        return out

    def expire(self, key: Key, created: float, now: float) -> Admission:
        """Delete a finished Job whose time to live has expired, if it is the one created at
        ``created``."""
        document = self.documents.get(key)
        if document is None or document.created != created:
            return Admission()
        return remove(self.registry, key, now, keep=True)

    def _keep(self, draft: Draft, out: Admission, *documents: Document) -> None:
        """Apply the drafted state of Jobs to the registry, beside what ``out`` has."""
        jobs = out.jobs
        at_once(self._collect(draft, out))
        out.jobs = jobs + out.jobs
        draft.keep()
        for document in documents:
            self.documents[document.key] = document
            if document not in out.documents:
                out.documents.append(document)

    # --- taking back what the ledger refused ------------------------------------------------------

    def mark(self) -> None:
        """Start journaling, so that :meth:`undo` can revert later changes."""
        self.registry.mark()

    def forget_mark(self) -> None:
        """Make the changes since the mark final: they are durable."""
        self.registry.forget_mark()

    def undo(self) -> None:
        """Revert to the state at the mark."""
        self.registry.undo()

    # --- recovery -----------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> list[HyperNode]:
        """Replace everything by the content of the ledger. Returns the hyper nodes, for Order."""
        self.registry = self._empty()
        take_up(self.registry, decode(snapshot))
        mark_deleting(self.registry)
        groups = (d for key, d in self.documents.items() if key.kind == self.registry.group_kind)
        self._sees_grouper = any(_OWNERS in group.body for group in groups)
        return list(self.registry.hyper_nodes.values())


def _each(
    step: AdmissionStep, judge: Callable[[AdmissionStep, Any], None], manifests: Iterable[Any]
) -> Steps[None]:
    for manifest in manifests:
        yield
        try:
            judge(step, manifest)
        except InvalidInput as error:
            step.refuse(manifest, error)


def _has_owner(manifest: Manifest, sent: dict[str, Any]) -> bool:
    """Whether it is a PodGroup that a controller made for something else."""
    is_group = isinstance(manifest, PodGroupManifest | KaiPodGroup)
    return is_group and bool(sent["metadata"].get("ownerReferences"))
