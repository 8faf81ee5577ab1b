"""Authorization for the service's HTTP: by tokens of its own, and beside a Kubernetes cluster by
the reviews of the API server."""

from __future__ import annotations

from coordinator.api.auth.gate import Gate
from coordinator.api.listener.policy import open_gate
from coordinator.service.metrics.probes import Probes
from coordinator.service.observed.observed import ObservedCluster
from shared.settings.settings import Settings


def gate_of(settings: Settings, observed: ObservedCluster | None, probes: Probes) -> Gate:
    """The gate of the service. What is asked of the API server and of KAI's binder is counted in
    ``probes`` from here on."""
    gate = Gate(open_gate(settings), None if observed is None else observed.reviews)
    if gate.rechecks is not None:
        probes.reviews = gate.rechecks.reviews.counts
    if observed is not None:
        probes.not_understood = observed.refusals
        probes.quarantine = observed.cluster.mirror.quarantine
    if observed is not None and observed.binder is not None:
        probes.bind_requests = observed.binder.counts
    return gate
