"""A worker's copy of the objects that are not nodes: hyper nodes, priority classes and others.

Maintained by following the log; a session over the view reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shard_worker.view import hyper_tree
from shard_worker.view.hyper_tree import HyperTree
from shared.model.model import Node, PriorityClass
from shared.model.objects import ClusterObjects
from shared.model.topology import HyperNode
from shared.records.specs import (
    HYPER_NODE_KEY,
    PRIORITY_CLASS_KEY,
    decode_hyper_node,
    decode_object,
    decode_priority_class,
    is_object_key,
)

_FIELDS = {
    "budget/": "budgets",
    "claimtemplate/": "claim_templates",
    "csinode/": "csi_nodes",
    "deviceclass/": "device_classes",
    "kaipodgroup/": "kai_groups",
    "kaiqueue/": "kai_queues",
    "kaitopology/": "kai_topologies",
    "numatopology/": "numa",
    "quota/": "quotas",
    "resourceclaim/": "claims",
    "resourceslice/": "slices",
    "storageclass/": "storage_classes",
    "volume/": "volumes",
    "volumeclaim/": "volume_claims",
}
"""Beginning of the key -> where :class:`ClusterObjects` has those objects."""


class KnownObjects:
    """Fed with the ledger's objects by key; other keys are skipped."""

    def __init__(self) -> None:
        self.objects = ClusterObjects()
        self.priority_classes: dict[str, PriorityClass] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._tree: HyperTree | None = None
        self._stale = False

    def put(self, key: str, spec: bytes | None) -> None:
        """Store an object that came or changed, or (None) forget it. Errors: Malformed."""
        if key.startswith(HYPER_NODE_KEY):
            self._stale = True
            if spec is None:
                self._hyper_nodes.pop(key.removeprefix(HYPER_NODE_KEY), None)
            else:
                hyper = decode_hyper_node(spec)
                self._hyper_nodes[hyper.name] = hyper
        elif key.startswith(PRIORITY_CLASS_KEY):
            if spec is None:
                self.priority_classes.pop(key.removeprefix(PRIORITY_CLASS_KEY), None)
            else:
                priority_class = decode_priority_class(spec)
                self.priority_classes[priority_class.name] = priority_class
        elif is_object_key(key):
            self._put_object(key, spec)

    def _put_object(self, key: str, spec: bytes | None) -> None:
        kind, slash, name = key.partition("/")
        field = _FIELDS.get(kind + slash)
        if field is None:
            return
        objects: dict[str, Any] = getattr(self.objects, field)
        # A counter, because devices are read from two kinds of objects: whoever indexed them
        # compares one number.
        self.objects.devices += (
            objects is self.objects.slices or objects is self.objects.device_classes
        )
        if spec is None:
            objects.pop(name, None)
        else:
            objects[name] = decode_object(key, spec)

    def nodes_changed(self) -> None:
        """Nodes were added, deleted or relabelled, so that domains may have changed."""
        # Built when next asked for: a batch of intake may bring thousands of nodes, and each would
        # mean a tree.
        self._stale = bool(self._hyper_nodes)

    def tree(self, nodes: Sequence[Node | None]) -> HyperTree | None:
        """The hyper nodes over these nodes; None where there are none."""
        if self._stale:
            self._stale = False
            hyper_nodes = [self._hyper_nodes[name] for name in sorted(self._hyper_nodes)]
            self._tree = hyper_tree.build_tree(hyper_nodes, nodes) if hyper_nodes else None
        return self._tree
