"""Domains of a topology: which of them a group is tried on, and in what order.

A node belongs to a topology if it has the labels of all its levels. Below a virtual root every
level divides the domains of the one above. Fuller domains come first, so that groups are packed;
what has no room for a group is not tried at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.model.kai import KaiTopology, KaiTopologyConstraint

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
WHOLE = 1 << 128
"""All that is free, of which ratios are parts: any two ratios of amounts below 2**64 that differ do
so by more than one of these parts. As exact as a Fraction, at a tenth of its time: a gang's turn
compares hundreds of racks."""
LACKING = 1000 * WHOLE
"""The part of nothing that a request comes to."""
STEPS = 10
"""Domains of the preferred level are told apart in so many steps of a score."""


@dataclass(slots=True, eq=False)
class Domain:
    """``path``: the values of the levels' labels, from the top; () is the root."""

    path: tuple[str, ...]
    rows: Rows
    children: list[Domain] = field(default_factory=list)

    @property
    def id(self) -> str:
        return ".".join(self.path)

    @property
    def level(self) -> int:
        """The index of its level, -1 for the root."""
        return len(self.path) - 1

    def at_level(self, level: int) -> Iterator[Domain]:
        """The domains of a level at or below this one, in the tree's order."""
        if self.level == level:
            yield self
        elif self.level < level:
            for child in self.children:
                yield from child.at_level(level)


def grown(
    rows: Rows, codes: Sequence[NDArray[np.int32]], values: Sequence[Sequence[str]]
) -> Domain:
    """The tree over these rows, which have a code (an index of ``values``) at every level."""
    return _grown((), rows, codes, values)


def _grown(
    path: tuple[str, ...],
    rows: Rows,
    codes: Sequence[NDArray[np.int32]],
    values: Sequence[Sequence[str]],
) -> Domain:
    domain = Domain(path, rows)
    level = len(path)
    if level < len(codes):
        row_codes = codes[level][rows]
        for code in np.unique(row_codes).tolist():
            below = (*path, values[level][code])
            domain.children.append(_grown(below, rows[row_codes == code], codes, values))
    return domain


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """The joint requests of a group's tasks, against the free amounts of each row."""

    tasks: int
    pods: NDArray[np.int64] | None
    """How many of the largest task each row has room for; None where tasks differ in kind."""
    ratios: Sequence[tuple[int, NDArray[np.int64]]]
    """(amount asked in all, free per row) of each resource but pods."""
    own: Mask | None = None
    """The rows of the own shard, where a shard prefers them."""

    def ratio(self, domain: Domain) -> int:
        """The largest part of what is free in a domain that the group asks for."""
        largest = 0
        for amount, free in self.ratios:
            has = int(free[domain.rows].sum())
            largest = max(largest, amount * WHOLE // has if has > 0 else LACKING)
        return largest

    def is_own(self, domain: Domain) -> bool:
        """Whether more than half of the domain is of the own shard."""
        return self.own is not None and 2 * int(self.own[domain.rows].sum()) > len(domain.rows)

    def fits(self, domain: Domain) -> bool:
        """Whether the domain could have room for all tasks."""
        if self.pods is not None:
            return int(self.pods[domain.rows].sum()) >= self.tasks
        return self.ratio(domain) <= WHOLE


@dataclass(frozen=True, slots=True)
class Limits:
    """The levels of a constraint by index; None where it does not name one."""

    required: int | None
    preferred: int | None

    @property
    def deepest(self) -> int:
        """The lowest level that is looked at."""
        if self.preferred is not None:
            return self.preferred
        return -1 if self.required is None else self.required

    @property
    def highest(self) -> int:
        return -1 if self.required is None else self.required


def limits_of(topology: KaiTopology, constraint: KaiTopologyConstraint) -> Limits | None:
    """The levels of a constraint; None where the topology lacks one, or none is named."""
    names = (constraint.required, constraint.preferred)
    required, preferred = (topology.level(name) if name else None for name in names)
    if any(
        name and level is None for name, level in zip(names, (required, preferred), strict=True)
    ):
        return None
    return None if required is None and preferred is None else Limits(required, preferred)


def common_domain(root: Domain, limits: Limits) -> Domain:
    """The lowest domain with all rows, no lower than the constraint looks."""
    domain = root
    while len(domain.children) == 1 and domain.level < limits.deepest:
        domain = domain.children[0]
    return domain


def in_order(domain: Domain, asked: GroupRequest, deepest: int) -> Domain:
    """The tree below a domain with fuller children first; equals by id."""
    if domain.level >= deepest:
        return domain
    children = sorted(domain.children, key=lambda child: (-asked.ratio(child), child.id))
    ordered = [in_order(child, asked, deepest) for child in children]
    return Domain(domain.path, domain.rows, ordered)


def domains_to_try(root: Domain, asked: GroupRequest, limits: Limits, active: Rows) -> list[Domain]:
    """The domains for a group, the best first: of the lowest level first, then of wider ones.
    Within a level those of the own shard go before fuller ones, as its nodes do: the fullest is the
    same for all workers, which would meet in it.
    ``root``: ordered. ``active``: rows with tasks of the group; with a required level it stays in
    the domains that have them."""
    domains: list[Domain] = []
    for level in range(limits.deepest, limits.highest - 1, -1):
        fitting = [domain for domain in root.at_level(level) if asked.fits(domain)]
        domains += sorted(fitting, key=lambda domain: not asked.is_own(domain))
    if limits.required is None or not len(active):
        return domains
    homes = [
        domain.path
        for domain in root.at_level(limits.required)
        if np.isin(active, domain.rows).any()
    ]
    return [domain for domain in domains if domain.path[: limits.required + 1] in homes]


def level_scores(root: Domain, level: int, size: int) -> NDArray[np.float64]:
    """Rows by the order of their domains of the preferred level: the first has the least, so that
    where a wide set is tried the emptier domains are taken."""
    scores = np.zeros(size, np.float64)
    domains = list(root.at_level(level))
    for place, domain in enumerate(domains, start=1):
        scores[domain.rows] = STEPS * place // len(domains)
    return scores
