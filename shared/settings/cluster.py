"""Which cluster is scheduled, and whose pods: what several settings say together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

ALL_SCHEDULERS = "*"
"""In ``scheduler_names``: the pods of every scheduler are ours."""


def scheduler_names(data: Mapping[str, Any]) -> str:
    """The default of ``scheduler_names``, by the settings before it."""
    if data.get("shadow"):
        return ALL_SCHEDULERS
    real = data.get("kubeconfig") is not None or data.get("in_cluster")
    return "quadrant" if real else "default-scheduler,quadrant,volcano"


class ClusterChoice(Protocol):
    """The settings that say what is done with which cluster."""

    @property
    def kubernetes(self) -> bool: ...
    @property
    def kubeconfig(self) -> Path | None: ...
    @property
    def in_cluster(self) -> bool: ...
    @property
    def shadow(self) -> bool: ...
    @property
    def binder(self) -> str: ...


def check_cluster(chosen: ClusterChoice) -> None:
    """Raises ValueError."""
    if chosen.kubeconfig is not None and chosen.in_cluster:
        names = "QUADRANT_KUBECONFIG, QUADRANT_IN_CLUSTER"
        raise ValueError(f"{names}: both name a cluster; unset one of them")
    remedy = "set QUADRANT_KUBECONFIG or QUADRANT_IN_CLUSTER too"
    if chosen.shadow and not chosen.kubernetes:
        message = "QUADRANT_SHADOW: there is no Kubernetes cluster to decide beside"
        raise ValueError(f"{message}; {remedy}")
    if chosen.binder == "quadrant":
        return
    if not chosen.kubernetes:
        message = f"QUADRANT_BINDER: there is no Kubernetes cluster for {chosen.binder} to bind in"
        raise ValueError(f"{message}; {remedy}")
    if chosen.shadow:
        raise ValueError("QUADRANT_BINDER: the shadow has nothing bound; unset it")


def reviews_access(data: Mapping[str, Any]) -> bool:
    """The default of ``access_reviews``, by the settings before it (decision 0093)."""
    return bool(data.get("in_cluster")) and not data.get("shadow")


def check_listener(certificate: Path | None, key: Path | None, *, reviews: bool) -> None:
    """``reviews``: reviews are asked for, and there is no cluster to ask. Raises ValueError."""
    if (certificate is None) != (key is None):
        names = "QUADRANT_TLS_CERT_FILE, QUADRANT_TLS_KEY_FILE"
        raise ValueError(f"{names}: one of them is set; set both, or none for plain HTTP")
    if reviews:
        message = "QUADRANT_ACCESS_REVIEWS: there is no Kubernetes cluster to ask"
        raise ValueError(f"{message}; set QUADRANT_KUBECONFIG or QUADRANT_IN_CLUSTER too")
