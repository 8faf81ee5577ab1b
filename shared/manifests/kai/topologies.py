"""The levels that a PodGroup names, held against the topologies that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shared.model.kai import KaiPodGroup, KaiTopology, KaiTopologyConstraint
from shared.model.model import WorldObject


@dataclass(frozen=True, slots=True)
class TopologyProblem:
    """A level, or a topology, that a PodGroup cannot have."""

    group: str
    """``namespace/name``."""
    field: str
    value: str
    message: str
    waits: bool = False
    """The topology may still come: the PodGroup is accepted, and waits for it."""


def topology_problems(
    group: KaiPodGroup,
    stored: Callable[[str], WorldObject | None] = lambda name: None,
    *,
    topology: KaiTopology | None = None,
) -> Iterator[TopologyProblem]:
    """Yield the problems of a group's topology constraints and of its sub groups', field by field.

    ``stored``: the topology of a name. With ``topology``: only constraints that name this one."""
    constraints = [("spec.topologyConstraint", group.topology)]
    constraints += [
        (f"spec.subGroups[{i}].topologyConstraint", sub.topology)
        for i, sub in enumerate(group.sub_groups)
    ]
    for at, constraint in constraints:
        if constraint is None or (topology and constraint.topology != topology.name):
            continue
        value = topology or stored(constraint.topology)
        if isinstance(value, KaiTopology):
            yield from _levels(group, at, constraint, value)
        else:
            message = f"Topology {constraint.topology} does not exist, so it waits; create it"
            name = constraint.topology
            yield TopologyProblem(group.key, f"{at}.topology", name, message, waits=True)


def _levels(
    group: KaiPodGroup, at: str, constraint: KaiTopologyConstraint, topology: KaiTopology
) -> Iterator[TopologyProblem]:
    required = topology.level(constraint.required)
    preferred = topology.level(constraint.preferred)
    levels = ", ".join(level.alias or level.label for level in topology.levels)
    for field, name, level in (
        ("requiredTopologyLevel", constraint.required, required),
        ("preferredTopologyLevel", constraint.preferred, preferred),
    ):
        if name and level is None:
            message = f"Topology {topology.name} has no such level; write one of {levels}"
            yield TopologyProblem(group.key, f"{at}.{field}", name, message)
    if required is not None and preferred is not None and required > preferred:
        message = (
            f"is below the preferred level {constraint.preferred}: pods that must share it share "
            f"that one anyway; Topology {topology.name} has from the top {levels}: exchange the "
            "two, or leave the preferred one out"
        )
        field = f"{at}.requiredTopologyLevel"
        yield TopologyProblem(group.key, field, constraint.required, message)
