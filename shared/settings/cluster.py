"""Which cluster is scheduled, and whose pods: what several settings say together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ALL_SCHEDULERS = "*"
"""In ``scheduler_names``: the pods of every scheduler are ours."""


def scheduler_names(data: Mapping[str, Any]) -> str:
    """The default of ``scheduler_names``, by the settings before it."""
    if data.get("shadow"):
        return ALL_SCHEDULERS
    real = data.get("kubeconfig") is not None or data.get("in_cluster")
    return "quadrant" if real else "default-scheduler,quadrant,volcano"


def check_cluster(kubeconfig: Path | None, *, in_cluster: bool, shadow: bool, binder: str) -> None:
    """Raises ValueError."""
    if kubeconfig is not None and in_cluster:
        names = "QUADRANT_KUBECONFIG, QUADRANT_IN_CLUSTER"
        raise ValueError(f"{names}: both name a cluster; unset one of them")
    if shadow and kubeconfig is None and not in_cluster:
        message = "QUADRANT_SHADOW: there is no Kubernetes cluster to decide beside"
        raise ValueError(f"{message}; set QUADRANT_KUBECONFIG or QUADRANT_IN_CLUSTER too")
    if binder != "quadrant" and kubeconfig is None and not in_cluster:
        message = f"QUADRANT_BINDER: {binder} binds pods of a Kubernetes cluster, and there is none"
        raise ValueError(f"{message}; set QUADRANT_KUBECONFIG or QUADRANT_IN_CLUSTER too")
    if binder != "quadrant" and shadow:
        raise ValueError("QUADRANT_BINDER: the shadow has nothing bound; unset it")
