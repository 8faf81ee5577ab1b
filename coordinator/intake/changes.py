"""Changes that intake publishes to the coordinator: objects that became durable together, and
removed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from coordinator.intake.documents.document import Document, Key
from shared.model.model import Job, Node, Queue, TaskClass, WorldObject
from shared.model.topology import HyperNode


@dataclass(slots=True)
class Changes:
    """The admitted objects that became durable together."""

    classes: dict[int, TaskClass] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    nodes_gone: list[int] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    queues_gone: list[int] = field(default_factory=list)
    hyper_nodes_gone: list[str] = field(default_factory=list)
    objects: list[WorldObject] = field(default_factory=list)
    """Volumes, budgets, devices and the like, new or changed."""
    objects_gone: list[WorldObject] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    jobs_gone: list[int] = field(default_factory=list)
    """Deleted jobs: none of their tasks is placed any more, running ones are stopped. They keep
    their names and documents until they are purged."""
    tasks_gone: list[tuple[int, int]] = field(default_factory=list)
    """Deleted members (jid, tix) of jobs that stay: to be recorded as FAILED, and stopped. Their
    pods keep their names and documents until they are purged."""
    jobs_purged: list[int] = field(default_factory=list)
    """Deleted jobs whose last task and record are gone."""
    documents: list[Document] = field(default_factory=list)
    """New or changed, at most one per object."""
    documents_gone: list[Key] = field(default_factory=list)

    def parts(self, size: int) -> Iterator[Changes]:
        """Split into changes of at most ``size`` nodes or jobs. Referenced objects come first, each
        object together with its documents. Changes that delete anything stay whole, because a
        replacement may have the deleted object's name."""
        removals = (self.nodes_gone, self.queues_gone, self.hyper_nodes_gone, self.objects_gone)
        ended = (self.jobs_gone, self.tasks_gone, self.jobs_purged, self.documents_gone)
        if len(self.nodes) + len(self.jobs) <= size or any(removals) or any(ended):
            yield self
            return
        names = {node.name for node in self.nodes}
        jids = {job.jid for job in self.jobs}
        of_node: dict[str, Document] = {}
        of_job: dict[int, list[Document]] = {}
        others: list[Document] = []
        for document in self.documents:
            if document.jid in jids:
                of_job.setdefault(document.jid, []).append(document)
            elif document.key.kind == "Node" and document.key.name in names:
                of_node[document.key.name] = document
            else:
                others.append(document)
        classes = self.classes
        for nodes in _chunks(self.nodes, size):
            documents = [of_node[node.name] for node in nodes if node.name in of_node]
            yield Changes(classes=classes, nodes=nodes, documents=documents)
            classes = {}
        yield Changes(
            classes=classes,
            queues=self.queues,
            hyper_nodes=self.hyper_nodes,
            objects=self.objects,
            documents=others,
        )
        for jobs in _chunks(self.jobs, size):
            documents = [document for job in jobs for document in of_job.get(job.jid, ())]
            yield Changes(jobs=jobs, documents=documents)


T = TypeVar("T")


def _chunks(items: list[T], size: int) -> Iterator[list[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
