"""Trees of Kubernetes' own groups: PodGroups below CompositePodGroups, and the sub groups of KAI's
that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from shared.manifests.kubernetes.groups import (
    PARENT,
    CompositePodGroupManifest,
    NativeManifest,
    NativePodGroupManifest,
)
from shared.manifests.parse import parse_stored
from shared.model.groups import COMPOSITE, NATIVE, group_key
from shared.model.kai import KaiPodGroup, KaiSubGroup, KaiTopologyConstraint, label_topology
from shared.model.model import Job

MOST_LEVELS = 4
MOST_GROUPS = 1_000
"""Groups of a tree, as many as KAI's sub groups of a PodGroup may be: all of them are looked at
whenever one comes or changes."""
_SUB_TREE = "compositepodgroup/"
_NAMES_PARENT = PARENT.encode()
_POLICY = {True: "PreemptLowerPriority", False: "Never"}
V = TypeVar("V")
Importance = Callable[[NativeManifest], tuple[int, bool]]
"""(its priority, whether it may preempt)."""


class TreeNodes(Protocol):
    def get(self, key: str, /) -> NativeManifest | None: ...


class TreeChildren(Protocol):
    def get(self, key: str, /) -> frozenset[str] | None: ...


class TreeTable(Protocol[V]):
    def get(self, key: str, /) -> V | None: ...

    def __setitem__(self, key: str, value: V, /) -> None: ...


@dataclass(frozen=True, slots=True)
class GroupTrees:
    """The groups that have a parent or are CompositePodGroups."""

    nodes: TreeNodes
    """By :func:`group_key`."""
    children: TreeChildren
    """:func:`group_key` of a CompositePodGroup -> those of the groups that name it as parent."""

    def root(self, node: NativeManifest) -> tuple[NativeManifest | None, str]:
        """The top of the node's tree; None where it has none, and why. A node below the deepest
        level that is allowed has none: a chain of parents may be as long as its author likes."""
        visited, lowest = {tree_key(node)}, node
        while node.parent:
            if len(visited) > MOST_LEVELS:
                return None, too_deep(lowest)
            above = self.nodes.get(parent_key(node))
            if above is None:
                return None, f'waiting for composite pod group "{node.parent}" to appear'
            if tree_key(above) in visited:
                return None, f"cycle detected in the hierarchy: [{' '.join(sorted(visited))}]"
            visited.add(tree_key(above))
            node = above
        return node, ""

    def below(self, node: NativeManifest) -> list[NativeManifest]:
        """Its children, by time of creation, then name."""
        keys = self.children.get(tree_key(node)) or ()
        children = [child for key in keys if (child := self.nodes.get(key)) is not None]
        return sorted(children, key=lambda child: (child.created or 0.0, child.name))

    def walk(self, node: NativeManifest, level: int = 1) -> Iterator[tuple[int, NativeManifest]]:
        """(level, group) of the node, which is in no circle, and all groups below it down to the
        level that is one too deep, parents before children."""
        yield level, node
        for child in self.below(node) if level <= MOST_LEVELS else ():
            yield from self.walk(child, level + 1)

    def can_reach(self, node: NativeManifest) -> bool:
        """Whether the groups that exist could meet the minima, with pods enough."""
        if not isinstance(node, CompositePodGroupManifest):
            return True
        return sum(map(self.can_reach, self.below(node))) >= node.minimum


def sub_groups(root: NativeManifest, queue: str, nodes: Sequence[NativeManifest]) -> KaiPodGroup:
    """A tree as a PodGroup of KAI's. ``nodes``: the root, and the groups below it as
    :meth:`GroupTrees.walk` gives them. Composites without groups are left out: nothing can satisfy
    them."""
    filled: set[str] = set()
    for node in reversed(nodes):  # children before parents
        if not isinstance(node, CompositePodGroupManifest) or tree_key(node) in filled:
            filled.add(parent_key(node))
    parts = [
        _sub_group(node, root)
        for node in nodes[1:]
        if not isinstance(node, CompositePodGroupManifest) or tree_key(node) in filled
    ]
    return KaiPodGroup(
        root.namespace,
        f"{COMPOSITE}/{root.name}",
        queue,
        uid=root.uid,
        priority_class=root.priority_class,
        min_sub_group=root.minimum,
        sub_groups=tuple(parts),
        topology=_constraint(root),
    )


def _sub_group(node: NativeManifest, root: NativeManifest) -> KaiSubGroup:
    # Its name is no role's: a PodGroup may have the same.
    parent = "" if parent_key(node) == tree_key(root) else _SUB_TREE + node.parent
    constraint = _constraint(node)
    if isinstance(node, CompositePodGroupManifest):
        name = _SUB_TREE + node.name
        return KaiSubGroup(name, parent, min_sub_group=node.minimum, topology=constraint)
    return KaiSubGroup(node.name, parent, min_member=node.minimum, topology=constraint)


def tree_key(node: NativeManifest) -> str:
    kind = COMPOSITE if isinstance(node, CompositePodGroupManifest) else NATIVE
    return group_key(kind, f"{node.namespace}/{node.name}")


def parent_key(node: NativeManifest) -> str:
    return group_key(COMPOSITE, f"{node.namespace}/{node.parent}")


def in_tree(node: NativeManifest) -> bool:
    return bool(node.parent) or isinstance(node, CompositePodGroupManifest)


def tree_node_of(document: Document) -> NativeManifest | None:
    """The group of a tree that a document has; None for all other objects."""
    kind = document.key.kind
    is_leaf = kind == NATIVE_POD_GROUP.kind and _NAMES_PARENT in document.body
    if not is_leaf and kind != COMPOSITE_POD_GROUP.kind:
        return None
    node = parse_stored(document.object())
    return node if isinstance(node, NativePodGroupManifest) and in_tree(node) else None


def sub_group_of(job: Job, key: Key) -> str:
    """The name of the sub group that a group is in the job of its tree; "" for the root."""
    if key.kind != COMPOSITE:
        return key.name
    return "" if key.name == job.name else _SUB_TREE + key.name


def group_keys(job: Job) -> list[Key]:
    """The keys of one of Kubernetes' own groups, and of those in its tree."""
    return list(map(Key.parse, part_keys(job)))


def part_keys(job: Job) -> Iterator[str]:
    """The :func:`group_key` of the root and of each group below it that is part of a tree's job."""
    yield group_key(job.kind, job.key)
    for name, _ in job.role_minima:
        is_composite = name.startswith(_SUB_TREE)
        own_name = name.removeprefix(_SUB_TREE)
        yield group_key(COMPOSITE if is_composite else NATIVE, f"{job.namespace}/{own_name}")


def _constraint(node: NativeManifest) -> KaiTopologyConstraint | None:
    key = node.topology_key
    return KaiTopologyConstraint(label_topology(key), key) if key else None


def invalid_tree(nodes: Sequence[tuple[int, NativeManifest]], importance: Importance) -> str:
    """Why nothing of a tree may be placed; "" where it is valid. ``nodes``: level and group, the
    root first. The sentences are those of kube-scheduler 1.38."""
    root = nodes[0][1]
    for level, node in nodes:
        if level == MOST_LEVELS and isinstance(node, CompositePodGroupManifest):
            return too_deep(node)
        if why := _differs(node, root, importance):
            return why
    return ""


def too_large(root: NativeManifest) -> str:
    return f'more than {MOST_GROUPS:,} groups in the tree of "{root.name}"; split it'


def too_deep(node: NativeManifest) -> str:
    return f'hierarchy depth exceeds maximum allowed depth {MOST_LEVELS} at "{node.name}"'


def _differs(node: NativeManifest, root: NativeManifest, importance: Importance) -> str:
    if node.workload != root.workload:
        return (
            "pod group workload does not match root workload, got: "
            f'"{node.workload}" ("{node.name}") and "{root.workload}" ("{root.name}")'
        )
    (priority, preempts), (expected, preempts_too) = importance(node), importance(root)
    if priority != expected:
        return (
            "all pod groups in a hierarchy should have the same priority as the root pod group's "
            f'priority, got {priority} ("{node.name}") and {expected} ("{root.name}")'
        )
    if preempts is not preempts_too:
        return (
            "all pod groups in a hierarchy should have the same preemption policy, got "
            f'{_POLICY[preempts]} ("{node.name}") and {_POLICY[preempts_too]}'
        )
    return ""


def put_tree_node(
    nodes: TreeTable[NativeManifest], children: TreeTable[frozenset[str]], node: NativeManifest
) -> None:
    nodes[tree_key(node)] = node
    if node.parent:
        above = parent_key(node)
        children[above] = (children.get(above) or frozenset()) | {tree_key(node)}


def drop_tree_node(
    nodes: dict[str, NativeManifest], children: dict[str, frozenset[str]], key: str
) -> None:
    node = nodes.pop(key, None)
    if node is not None and node.parent:
        above = parent_key(node)
        children[above] = children.get(above, frozenset()) - {key}
        if not children[above]:
            del children[above]
