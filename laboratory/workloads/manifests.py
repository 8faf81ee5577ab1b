"""Objects as users write them, for workloads that runs submit."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.kinds import BY_KIND

Item = dict[str, Any]

UNLIMITED: Item = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
"""A resource of a KAI queue without quota or limit."""


def manifest(
    kind: str,
    name: str,
    spec: Item | None = None,
    *,
    namespace: str = "",
    metadata: Item | None = None,
    **parts: Any,
) -> Item:
    """``kind``: as in :data:`BY_KIND`, ``KaiQueue`` for a queue of KAI's. ``metadata``: beside name
    and namespace. ``parts``: of the object beside its ``spec``."""
    named = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": BY_KIND[kind].api_version,
        "kind": BY_KIND[kind].written,
        "metadata": named | (metadata or {}),
        **({} if spec is None else {"spec": spec}),
        **parts,
    }


def kai_queue(name: str, parent: str = "", *, gpu: Item = UNLIMITED) -> Item:
    """A queue of KAI's that may have all cores and memory. ``gpu``: what it may have of GPUs."""
    above = {"parentQueue": parent} if parent else {}
    resources = {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": gpu}
    return manifest("KaiQueue", name, {"resources": resources, **above})
