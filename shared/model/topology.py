"""Network domains (hyper nodes), and the topology constraints of jobs."""

from __future__ import annotations

from shared.codec.packed import Packed
from shared.model.constraints import Selector


class Topology(Packed, frozen=True):
    """``networkTopology``: all tasks must be within one hyper node of at most this tier."""

    hard: bool
    highest_tier: int | None = None
    """None: not set; the whole cluster is allowed."""
    highest_tier_name: str = ""
    """Alternative to the number: the tier of hyper nodes with this ``tierName``."""


class SubGroupPolicy(Packed, frozen=True):
    """Matching tasks are split by the values of label keys, one sub job per combination of
    values."""

    name: str
    size: int = 1
    """subGroupSize: number of tasks that a sub job needs to start."""
    minimum: int = 0
    """minSubGroups: number of sub jobs that the job needs to start."""
    topology: Topology | None = None
    selector: Selector | None = None
    """None matches every task of the job, and so does ()."""
    match_label_keys: tuple[str, ...] = ()


class Member(Packed, frozen=True):
    """Members of a hyper node, selected by name, pattern or labels."""

    hyper: bool
    """True: members are hyper nodes; False: nodes."""
    kind: str  # exact | regex | label
    value: str = ""
    """The name or the pattern; "" for labels."""
    selector: Selector | None = None
    """For kind label: selects nodes by their labels."""


class HyperNode(Packed, frozen=True):
    name: str
    tier: int
    members: tuple[Member, ...] = ()
    tier_name: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes listed by name."""
        return tuple(m.value for m in self.members if m.kind == "exact" and not m.hyper)

    @property
    def children(self) -> tuple[str, ...]:
        """Hyper nodes listed by name."""
        return tuple(m.value for m in self.members if m.kind == "exact" and m.hyper)

    @classmethod
    def of(
        cls, name: str, tier: int, nodes: tuple[str, ...] = (), children: tuple[str, ...] = ()
    ) -> HyperNode:
        """A hyper node whose members are all listed by name."""
        members = [Member(False, "exact", node) for node in nodes]
        members += [Member(True, "exact", child) for child in children]
        return cls(name, tier, tuple(members))
