"""Intake: from submitted objects to the operations that make them durable.

No I/O and no clock. :meth:`Intake.admit` judges each object of a list alone, in an order in which
references come first (classes of priority, queues, nodes, PodGroups, then Jobs and Pods), whatever
their order in the list. What it returns must become durable before anything else is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

from coordinator.admission import endings
from coordinator.admission.cluster import (
    admit_hyper_node,
    admit_node,
    admit_object,
    admit_priority_class,
)
from coordinator.admission.deletion import purge, remove
from coordinator.admission.documents import (
    DEFAULT_QUEUE,
    NAMESPACED,
    Item,
    body_of,
    default_queue,
    documents_of,
    repeated,
)
from coordinator.admission.gangs import admit_job, admit_pod_group
from coordinator.admission.pods import admit_pod, join_members
from coordinator.admission.queues import admit_queues
from coordinator.admission.registry import Draft, Registry
from coordinator.admission.restoring import decode, mark_deleting, take_up
from coordinator.admission.result import Admission
from coordinator.admission.step import Notice, Placed, Step, key_of, kind_of
from coordinator.objects.document import Document, Key
from shared.errors import InvalidInput, Refusal
from shared.ledger.protocol import Snapshot
from shared.manifests import (
    JobManifest,
    Manifest,
    NodeManifest,
    PodGroupManifest,
    PodManifest,
    QueueManifest,
    parse,
)
from shared.model import HyperNode, PriorityClass, WorldObject

__all__ = ["Admission", "Intake", "Notice", "Placed"]

_JUDGES: dict[type, Callable[[Step, Any], None]] = {
    PriorityClass: admit_priority_class,
    HyperNode: admit_hyper_node,
    NodeManifest: admit_node,
    **dict.fromkeys(get_args(WorldObject), admit_object),
    PodGroupManifest: admit_pod_group,
    JobManifest: admit_job,
    PodManifest: admit_pod,
}
"""In the order of judging; queues, whose order among themselves matters, come before nodes."""


class Intake:
    """The names that are taken, and the next numbers. ``observe`` also takes what a running cluster
    shows: pods that have a node, and creation times as written (``replay``)."""

    def __init__(self, *, observe: bool = False, images: bool | None = None) -> None:
        """``images``: keep which images nodes have and tasks need; as ``observe`` where not said.
        Tasks of different images are of different classes then."""
        self._images = observe if images is None else images
        self.registry = Registry(images=self._images)
        self._observe = observe
        self.node_of: Callable[[str, str], str] = lambda namespace, name: ""
        """The node a pod is on, "" for none; whoever knows it says so here."""

    @property
    def documents(self) -> dict[Key, Document]:
        """Of everything that was admitted, durable already or not."""
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
        """Take a list of objects. With ``atomic`` one refusal refuses the whole list; without
        ``keep`` nothing is taken, and the answer says what would come of it. Without ``planting``
        pods of PodGroups that do not exist, also not after this list, are refused.

        The queue ``default`` is created with the first list, also with an empty one.
        """
        out = Admission()
        taken = self._parse(items, out)
        manifests: dict[type, list[Any]] = {}
        for manifest, _, _ in taken:
            manifests.setdefault(type(manifest), []).append(manifest)
        draft = Draft(self.registry)
        step = Step(draft, now, self._observe, planting)
        for kind, judge in _JUDGES.items():
            _each(step, judge, manifests.get(kind, ()))
            if kind is PriorityClass:
                admit_queues(step, manifests.get(QueueManifest, ()))
        join_members(step)
        out.refused += step.refused
        if atomic and out.refused:
            return Admission(refused=out.refused)
        documents = documents_of(step, taken, self.documents)
        if DEFAULT_QUEUE not in self.documents:
            documents.setdefault(DEFAULT_QUEUE, default_queue(now))
        out.documents = list(documents.values())
        out.accepted = len(items) - len(out.refused)
        out.unchanged = step.unchanged
        out.notices = list(step.notices.values())
        out.placed = step.placed
        self._collect(draft, out)
        if keep:
            draft.keep()
            self.documents.update(documents)
        return out

    def _parse(self, items: Sequence[object], out: Admission) -> list[Item]:
        taken: list[Item] = []
        for sent in items:
            manifest = parse(sent)
            if isinstance(manifest, Refusal):
                out.refused.append(manifest)
                continue
            assert type(sent) is dict
            own = sent
            plain = type(manifest) is PodManifest and not (
                manifest.uid or manifest.template.node_name
            )
            try:
                if not (plain or self._observe) and (mine := self._repeated(manifest, sent)):
                    own, again = mine, parse(mine)
                    assert not isinstance(again, Refusal), "what is left out is never required"
                    manifest = again
                taken.append((manifest, own, body_of(own)))
            except InvalidInput as error:
                out.refused.append(error.refusal(kind_of(manifest), key_of(manifest)))
        return taken

    def _repeated(self, manifest: Manifest, sent: dict[str, Any]) -> dict[str, Any] | None:
        return repeated(manifest, sent, self.documents, self.node_of)

    def _collect(self, draft: Draft, out: Admission) -> None:
        out.ops += draft.operations()
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
        """Delete one object; what is unknown or still needed is refused.

        A PodGroup or Job goes with all its members; deleting a member of a PodGroup alone leaves
        the rest (``tasks_gone``). Their names are free after :meth:`purge`.
        """
        key = Key(kind, namespace if kind in NAMESPACED else "", name)
        return remove(self.registry, key, now, keep=keep)

    def remember(self, key: Key, state: dict[str, Any] | None) -> Admission:
        """What a controller knows of an object (phase, retries) stands in its document."""
        known = self.documents.get(key)
        if known is None or known.state == state:
            return Admission()
        self.documents[key] = document = replace(known, state=state)
        return Admission(documents=[document])

    def purge(
        self, jids: Sequence[int], pods: Iterable[tuple[int, int]], now: float | None = None
    ) -> Admission:
        """Nothing is left of these deleted jobs and members (jid, tix): forget them. Jobs that were
        stopped to begin anew do so now. ``now``: the end of those that ended with this, else when
        they were told to."""
        out = purge(self.registry, jids, pods)
        for key in out.jobs_ended:
            document = self.documents[key]
            draft = Draft(self.registry)
            following = endings.following(draft, document, now)
            self._keep(draft, out, following)
        return out

    # --- the controller of Jobs ---------------------------------------------------------------

    def end(self, key: Key, jid: int, state: dict[str, Any]) -> Admission:
        """Stop this incarnation of a Job; ``state`` says what comes then."""
        return endings.end(self.registry, key, jid, state)

    def note(self, key: Key, jid: int, state: dict[str, Any]) -> Admission:
        """Remember what became of this incarnation of a Job."""
        return endings.note(self.registry, key, jid, state)

    def grow(self, key: Key, jid: int, roles: list[str]) -> Admission:
        """Create roles of a Job that waited for others."""
        document = self.documents.get(key)
        if document is None or document.jid != jid:
            return Admission()
        draft = Draft(self.registry)
        out = endings.grow(draft, document, roles)
        if out.documents:
            self._keep(draft, out, *out.documents)
        return out

    def expire(self, key: Key, created: float, now: float) -> Admission:
        """Delete a Job whose time after its end is over, if it is the one created then."""
        document = self.documents.get(key)
        if document is None or document.created != created:
            return Admission()
        return remove(self.registry, key, now, keep=True)

    def _keep(self, draft: Draft, out: Admission, *documents: Document) -> None:
        """Make what became of Jobs part of what is known, beside what ``out`` has."""
        jobs = out.jobs
        self._collect(draft, out)
        out.jobs = jobs + out.jobs
        draft.keep()
        for document in documents:
            self.documents[document.key] = document
            if document not in out.documents:
                out.documents.append(document)

    # --- recovery -----------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> list[HyperNode]:
        """Know what the ledger holds, and nothing else. Returns the hyper nodes, for Order."""
        self.registry = Registry(images=self._images)
        take_up(self.registry, decode(snapshot))
        mark_deleting(self.registry)
        return list(self.registry.hyper_nodes.values())


def _each(step: Step, judge: Callable[[Step, Any], None], manifests: Iterable[Any]) -> None:
    for manifest in manifests:
        try:
            judge(step, manifest)
        except InvalidInput as error:
            step.refuse(manifest, error)
