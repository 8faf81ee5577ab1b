"""What intake tells the coordinator: objects that became durable together, and what is gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.objects.document import Document, Key
from shared.model import HyperNode, Job, Node, Queue, TaskClass, WorldObject


@dataclass(slots=True)
class Changes:
    """Objects that became durable together (what intake admitted)."""

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
    """Deleted jobs: nothing more of them is placed, what runs is stopped."""
    tasks_gone: list[tuple[int, int]] = field(default_factory=list)
    """Deleted members (jid, tix) of jobs that stay: to be recorded as FAILED, and stopped."""
    jobs_purged: list[int] = field(default_factory=list)
    """Deleted jobs that nothing is left of, their records neither."""
    documents: list[Document] = field(default_factory=list)
    """New or changed."""
    documents_gone: list[Key] = field(default_factory=list)
