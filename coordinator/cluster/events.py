"""Events of the cluster for the history: requests it received and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from shared.units.things import Things

EventKind = Literal["bind", "start", "releasing", "succeeded", "failed", "delete", "lost", "erased"]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Requests that the cluster received (bind, delete), or what it did, as parallel columns.

    ``answers`` is empty except for binds, where it has the true result of each request, not what a
    faulty connection made of the answer. A delete has no nodes, and uids only if it was for certain
    incarnations.
    """

    t: float
    kind: EventKind
    tasks: list[str]
    nodes: list[str]
    uids: list[str]
    answers: list[str]
    durations: list[float | None] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    """Requested exit codes of binds, like ``durations``: a restarted process learns from both how
    long pods run and how they end."""
    devices: list[Things] = field(default_factory=list)
    """Devices of binds on a Kubernetes cluster, as the pod itself names them."""
    gpus: list[Things] = field(default_factory=list)
    """GPUs of binds under the name of KAI's scheduler: (group, thousandths) of shares of GPUs by
    KAI's own labels on the pod, and ("", thousandths) of whole ones."""


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """Figures that turns have from one moment until another (seconds since 1970)."""

    usage: dict[str, dict[str, float]]
    """Node -> ``cpu`` and ``memory`` in percent, where they are known."""
    begins: float
    ends: float | None = None
    """None: until there are others."""
