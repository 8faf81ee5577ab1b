"""What a task asks of the nodes and of the other tasks around it, beyond amounts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str  # NoSchedule | PreferNoSchedule | NoExecute


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str  # "" with operator Exists tolerates everything
    operator: str  # Equal | Exists
    value: str
    effect: str  # "" matches every effect


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpressions entry. ``field`` is True for matchFields (only metadata.name)."""

    key: str
    operator: str  # In | NotIn | Exists | DoesNotExist | Gt | Lt
    values: tuple[str, ...]
    field: bool = False


Selector = tuple[Requirement, ...]
"""All hold; matchLabels are In requirements of one value. () matches everything.

Where a field is ``Selector | None``, None (no selector written) matches nothing."""

Terms = tuple[tuple[Requirement, ...], ...]
"""Alternatives of node requirements; those of one term all hold. () matches no node."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One term of inter-pod affinity (or with ``anti`` of anti-affinity)."""

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    """() = the namespace of the pod that has the term."""
    all_namespaces: bool = False
    anti: bool = False
    weight: int = 0
    """0 = required, 1 to 100 = preferred so much."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint: how uneven the matching pods may be over the domains."""

    topology_key: str
    max_skew: int = 1
    hard: bool = True
    """DoNotSchedule; else ScheduleAnyway, a wish."""
    selector: Selector | None = None
    min_domains: int = 1
    honor_affinity: bool = True
    """Count only domains of nodes that the pod's node affinity and selector let in."""
    honor_taints: bool = False
    """Count only domains of nodes whose taints the pod tolerates."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a task class asks for beyond requests, selector, node affinity and tolerations."""

    pod_terms: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    preferred_nodes: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    """(weight 1 to 100, requirements that all hold)."""
    volumes: tuple[str, ...] = ()
    """Names of PersistentVolumeClaims in the job's namespace, sorted."""
    claims: tuple[str, ...] = ()
    """Names of ResourceClaims in the job's namespace, sorted."""
    claim_templates: tuple[str, ...] = ()
    """Names of ResourceClaimTemplates: every task gets a claim of its own from each."""
    images: tuple[str, ...] = ()
    """One for each container, with its tag (``:latest`` where none is written), in their order."""
    preempts: bool = True
    """False: preemptionPolicy Never, it waits and evicts nobody."""

    @property
    def flat(self) -> bool:
        """Nothing but images and ``preempts``: whether a node fits depends on the node alone."""
        return not (
            self.pod_terms
            or self.spreads
            or self.preferred_nodes
            or self.volumes
            or self.claims
            or self.claim_templates
        )
