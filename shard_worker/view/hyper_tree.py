"""Hyper nodes as a tree of domains over the rows of a view: tier 1 is closest.

A virtual root with every node is above all of them, one tier higher than the highest. Hyper nodes
that do not form one tree (a cycle, two parents, an invalid pattern) make the tree unusable, with a
reason: jobs that require domains wait until it is repaired, others are not affected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.model.label_selector import matches
from shared.model.model import Node
from shared.model.topology import HyperNode, Member, Topology

TOP = "<cluster-top-hypernode>"
"""Name of the virtual root above all hyper nodes."""
NOWHERE = -1
"""Leaf of a row that is in no hyper node."""
GONE = -2
"""Leaf of a row whose node the cluster does not have (any more)."""

Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class HyperDomain:
    """A hyper node. Compared by identity."""

    name: str
    tier: int
    rows: NDArray[np.intp]
    """Real nodes below it, ascending."""
    parent: HyperDomain | None = None
    children: list[HyperDomain] = field(default_factory=list)
    """By name."""
    index: int = 0
    """In :attr:`HyperTree.listed`; a parent comes before its children."""
    depth: int = 0
    """0 for the root."""

    def within(self, ancestor: HyperDomain) -> bool:
        """Whether this domain is the other one, or below it."""
        at: HyperDomain | None = self
        while at is not None and at.depth > ancestor.depth:
            at = at.parent
        return at is ancestor

    def __repr__(self) -> str:
        return f"<{self.name} tier {self.tier}>"


@dataclass(slots=True)
class HyperTree:
    """``domains`` has every domain by name, the root :data:`TOP` among them."""

    root: HyperDomain
    domains: dict[str, HyperDomain]
    listed: list[HyperDomain] = field(default_factory=list)
    """Every domain, parents first."""
    tiers: tuple[int, ...] = ()
    """Every tier, the root's included, ascending."""
    tier_names: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    """Why no job that requires domains can be placed; "" for a valid tree."""
    leaf: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Row -> index of the lowest domain that has it, :data:`NOWHERE` where only the root does,
    :data:`GONE` where there is no node."""
    members: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    """The rows of all domains one after the other, in the order of ``listed``."""
    ends: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """Domain i has ``members[ends[i]:ends[i + 1]]``."""

    @property
    def ready(self) -> bool:
        return not self.problem

    def sums(self, per_row: Ints) -> Ints:
        """The sum of a value per row in each domain; index as in ``listed``."""
        # Differences of one running sum: all domains at once, where a sum for each domain would be
        # a call for each of a thousand racks.
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_row[self.members])])
        sums: Ints = running[self.ends[1:]] - running[self.ends[:-1]]
        return sums

    def leaf_of(self, row: int) -> str:
        """The lowest domain of the row; the root where it is in no hyper node, "" where its node is
        gone."""
        at = int(self.leaf[row]) if row < len(self.leaf) else GONE
        if at == GONE:
            return ""
        return TOP if at == NOWHERE else self.listed[at].name

    def lca(self, left: str, right: str) -> str:
        """The lowest common ancestor of both. "" and names of deleted domains are ignored."""
        a, b = self.domains.get(left), self.domains.get(right)
        if a is None or b is None:
            present = a or b
            return "" if present is None else present.name
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.parent is not None  # the deeper of two different domains has one
            a = a.parent
        return a.name

    def highest(self, topology: Topology | None) -> int | None:
        """The highest tier that a job may spread over; None: no limit. Soft means any tier, the
        lower the better. A name that no tier has sets no limit, as in Volcano."""
        if topology is None:
            return None
        if not topology.hard:
            return self.root.tier
        if topology.highest_tier_name:
            return self.tier_names.get(topology.highest_tier_name, topology.highest_tier)
        return topology.highest_tier

    def widest(self, name: str, tier: int) -> HyperDomain | None:
        """The highest domain above (or equal to) this one whose tier is not above ``tier``."""
        highest, at = None, self.domains.get(name)
        while at is not None and at.tier <= tier:
            highest, at = at, at.parent
        return highest


def build_tree(hyper_nodes: Iterable[HyperNode], nodes: Sequence[Node | None]) -> HyperTree:
    """The tree of these hyper nodes over the rows of these nodes (None: no node in that row)."""
    hyper_by_name = {hyper.name: hyper for hyper in hyper_nodes}
    every = np.array([row for row, node in enumerate(nodes) if node is not None], np.intp)
    top = 1 + max((hyper.tier for hyper in hyper_by_name.values()), default=0)
    try:
        below = {name: _children(hyper, hyper_by_name) for name, hyper in hyper_by_name.items()}
        parents = _parents(below)
        _no_cycle(parents)
        own_rows = _own_rows(hyper_by_name.values(), nodes)
    except _Broken as broken:
        root = HyperDomain(TOP, top, every)
        return _finish(root, {}, len(nodes), problem=str(broken))
    domains = {
        name: HyperDomain(name, hyper.tier, own_rows[name]) for name, hyper in hyper_by_name.items()
    }
    root = HyperDomain(TOP, top, every)
    for name in sorted(domains):
        domain, parent = domains[name], parents.get(name)
        domain.parent = root if parent is None else domains[parent]
        domain.parent.children.append(domain)
    names = {h.tier_name: h.tier for h in sorted(hyper_by_name.values(), key=lambda h: h.tier)}
    names.pop("", None)
    return _finish(root, names, len(nodes))


class _Broken(Exception):
    """The hyper nodes are no tree."""


def _children(hyper: HyperNode, hyper_by_name: Mapping[str, HyperNode]) -> list[str]:
    """Names of the hyper nodes that are its members; a missing name is ignored."""
    children: dict[str, None] = {}
    for member in hyper.members:
        if not member.hyper:
            continue
        if member.kind == "exact":
            names = [member.value] if member.value in hyper_by_name else []
        elif member.kind == "regex":
            pattern = _pattern(hyper, member)
            # A pattern may match the hyper node's own name by accident; that is no cycle.
            names = [name for name in hyper_by_name if name != hyper.name and pattern.search(name)]
        else:
            names = []
        children.update(dict.fromkeys(names))
    return list(children)


def _parents(below: Mapping[str, list[str]]) -> dict[str, str]:
    parents: dict[str, str] = {}
    for name in sorted(below):
        for child in below[name]:
            if child in parents:
                raise _Broken(
                    f"hyper node {child} is a member of both {parents[child]} and {name}; "
                    "take it out of one of them"
                )
            parents[child] = name
    return parents


def _no_cycle(parents: Mapping[str, str]) -> None:
    for name in parents:
        at, steps = name, 0
        while at in parents and steps <= len(parents):
            at, steps = parents[at], steps + 1
        if steps > len(parents):
            raise _Broken(f"hyper node {name} is a member of itself by way of {parents[name]}")


def _own_rows(
    hyper_nodes: Collection[HyperNode], nodes: Sequence[Node | None]
) -> dict[str, NDArray[np.intp]]:
    """Rows of the nodes that are members themselves, by hyper node."""
    own_rows: dict[str, NDArray[np.intp]] = {}
    if not hyper_nodes:
        return own_rows
    rows = {node.name: row for row, node in enumerate(nodes) if node is not None}
    for hyper in hyper_nodes:
        node_rows: set[int] = set()
        for member in hyper.members:
            if not member.hyper:
                node_rows.update(_rows_of(hyper, member, rows, nodes))
        own_rows[hyper.name] = np.array(sorted(node_rows), np.intp)
    return own_rows


def _rows_of(
    hyper: HyperNode, member: Member, rows: Mapping[str, int], nodes: Sequence[Node | None]
) -> Iterable[int]:
    if member.kind == "exact":
        return [rows[member.value]] if member.value in rows else []
    if member.kind == "regex":
        pattern = _pattern(hyper, member)
        return [row for name, row in rows.items() if pattern.search(name)]
    return [
        row
        for row, node in enumerate(nodes)
        if node is not None and matches(member.selector, node.labels)
    ]


def _pattern(hyper: HyperNode, member: Member) -> re.Pattern[str]:
    try:
        return re.compile(member.value)
    except re.error as error:
        raise _Broken(
            f"hyper node {hyper.name}: {member.value!r} is no regular expression ({error})"
        ) from None


def _finish(root: HyperDomain, names: dict[str, int], size: int, *, problem: str = "") -> HyperTree:
    listed = [root]
    for domain in listed:  # grows while it is gone through: parents first
        for child in domain.children:
            child.depth = domain.depth + 1
        listed += domain.children
    for domain in reversed(listed[1:]):
        if domain.children:
            parts = [domain.rows, *(child.rows for child in domain.children)]
            domain.rows = np.unique(np.concatenate(parts))
    leaf = np.full(size, GONE, np.int64)
    leaf[root.rows] = NOWHERE
    for index, domain in enumerate(listed):
        domain.index = index
        if index:
            # Parents come first in the list, so that the lowest domain of a row is the last to
            # write here.
            leaf[domain.rows] = index
    return HyperTree(
        root=root,
        domains={domain.name: domain for domain in listed},
        listed=listed,
        tiers=tuple(sorted({domain.tier for domain in listed})),
        tier_names=names,
        problem=problem,
        leaf=leaf,
        members=np.concatenate([domain.rows for domain in listed]),
        ends=np.cumsum([0, *(len(domain.rows) for domain in listed)], dtype=np.int64),
    )
