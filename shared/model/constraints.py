"""A task's constraints on nodes and on other tasks, other than amounts."""

from __future__ import annotations

from shared.codec.packed import Packed


class Taint(Packed, frozen=True):
    key: str
    value: str
    effect: str  # NoSchedule | PreferNoSchedule | NoExecute


class Toleration(Packed, frozen=True):
    key: str  # "" with operator Exists tolerates everything
    operator: str  # Equal | Exists
    value: str
    effect: str  # "" matches every effect


class Requirement(Packed, frozen=True):
    """One matchExpressions entry. ``field`` is True for matchFields (only metadata.name)."""

    key: str
    operator: str  # In | NotIn | Exists | DoesNotExist | Gt | Lt
    values: tuple[str, ...]
    field: bool = False


Selector = tuple[Requirement, ...]
"""All requirements must hold; matchLabels become In requirements with one value. () matches
everything. Where a field is ``Selector | None``, None (no selector written) matches nothing."""

Terms = tuple[tuple[Requirement, ...], ...]
"""Node selector terms: at least one must match, by all of its requirements. () matches no node."""


class PodTerm(Packed, frozen=True):
    """One term of pod affinity, or of anti-affinity with ``anti``."""

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    """() means the namespace of the pod with this term."""
    all_namespaces: bool = False
    anti: bool = False
    weight: int = 0
    """0 = required; 1 to 100 = the weight of a preference."""


class Spread(Packed, frozen=True):
    """One topology spread constraint: the maximum skew of matching pods between domains."""

    topology_key: str
    max_skew: int = 1
    hard: bool = True
    """DoNotSchedule; else ScheduleAnyway, a preference."""
    selector: Selector | None = None
    min_domains: int = 1
    honor_affinity: bool = True
    """Count only domains of nodes that match the pod's node affinity and selector."""
    honor_taints: bool = False
    """Count only domains of nodes whose taints the pod tolerates."""


class Constraints(Packed, frozen=True):
    """A task class's constraints other than requests, selector, node affinity and tolerations."""

    pod_terms: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    preferred_nodes: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    """(weight 1 to 100, requirements that must all hold)."""
    volumes: tuple[str, ...] = ()
    """Names of PersistentVolumeClaims in the job's namespace, sorted."""
    claims: tuple[str, ...] = ()
    """Names of ResourceClaims in the job's namespace, sorted."""
    claim_templates: tuple[str, ...] = ()
    """Names of ResourceClaimTemplates: each task gets its own claim from each template."""
    images: tuple[str, ...] = ()
    """One image per container, in order, with its tag (``:latest`` if none is written)."""
    preempts: bool = True
    """False: preemptionPolicy Never, so the task waits and never causes evictions."""

    @property
    def flat(self) -> bool:
        """Only images and ``preempts`` are set: whether a node fits depends on that node alone."""
        return not (
            self.pod_terms
            or self.spreads
            or self.preferred_nodes
            or self.volumes
            or self.claims
            or self.claim_templates
        )
