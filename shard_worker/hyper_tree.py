"""Hyper nodes as a tree of domains over the rows of a view: tier 1 is closest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

TOP = "<cluster-top-hypernode>"
"""Name of the virtual root above all hyper nodes."""


@dataclass(slots=True, eq=False)
class Domain:
    """A hyper node. Compared by identity."""

    name: str
    tier: int
    rows: NDArray[np.intp]
    """Real nodes below it, ascending."""
    parent: Domain | None = None
    children: list[Domain] = field(default_factory=list)


@dataclass(slots=True)
class HyperTree:
    """``domains`` has every domain by name, the root :data:`TOP` among them."""

    root: Domain
    domains: dict[str, Domain]
