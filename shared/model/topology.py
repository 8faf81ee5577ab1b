"""Network domains (hyper nodes), and what a job asks of them."""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.constraints import Selector


@dataclass(frozen=True, slots=True)
class Topology:
    """``networkTopology``: all tasks within one hyper node of at most this tier."""

    hard: bool
    highest_tier: int | None = None
    """None: not said, the whole cluster will do."""
    highest_tier_name: str = ""
    """Stands for the tier of the hyper nodes that have this ``tierName``."""


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Tasks that match, split by the values of label keys: each value's tasks are a sub job."""

    name: str
    size: int = 1
    """subGroupSize: tasks that a sub job needs to start."""
    minimum: int = 0
    """minSubGroups: sub jobs that the job needs to start."""
    topology: Topology | None = None
    selector: Selector | None = None
    """None matches every task of the job, as () does: a policy without a selector is for all."""
    match_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """Members of a hyper node, by name, by pattern or by labels."""

    hyper: bool
    """Members are hyper nodes; else nodes."""
    kind: str  # exact | regex | label
    value: str = ""
    """The name, or the pattern; "" for labels."""
    selector: Selector | None = None
    """Of kind label: what the labels of a node must be."""


@dataclass(frozen=True, slots=True)
class HyperNode:
    name: str
    tier: int
    members: tuple[Member, ...] = ()
    tier_name: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that are named."""
        return tuple(m.value for m in self.members if m.kind == "exact" and not m.hyper)

    @property
    def children(self) -> tuple[str, ...]:
        """Hyper nodes that are named."""
        return tuple(m.value for m in self.members if m.kind == "exact" and m.hyper)

    @classmethod
    def of(
        cls, name: str, tier: int, nodes: tuple[str, ...] = (), children: tuple[str, ...] = ()
    ) -> HyperNode:
        """A hyper node whose members are all named."""
        members = [Member(False, "exact", node) for node in nodes]
        members += [Member(True, "exact", child) for child in children]
        return cls(name, tier, tuple(members))
