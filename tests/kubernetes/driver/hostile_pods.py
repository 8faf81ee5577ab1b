"""Pods that an API server takes, and that whoever may create pods can use against a scheduler."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

DIGITS = "9" * 5000
"""More than Python turns into a number."""
EXPONENT = "1e999999999"
"""A number that does not fit into memory once it is written out."""


def naming_a_claim_template(pod: Json) -> list[Json]:
    """Pods that name a field of claims and have none: in an argument, a selector, a label."""
    field = "resourceClaimTemplateName"
    name = pod["metadata"]["name"]
    argument, selector, label = (_copy(pod, f"{name}-{part}") for part in ("arg", "sel", "label"))
    argument["spec"]["containers"][0]["args"] = [field]
    selector["spec"]["nodeSelector"] = {field: field}
    label["metadata"]["labels"] = label["metadata"].get("labels", {}) | {field: field}
    return [argument, selector, label]


def on_a_node_with_shares(pod: Json, node: str) -> list[Json]:
    """Pods on a node whose annotations ask for parts of GPUs in numbers beyond all bounds."""
    shares = {
        "memory": {"gpu-memory": DIGITS},
        "fraction": {"gpu-fraction": EXPONENT},
        "devices": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": DIGITS},
    }
    pods = []
    for name, notes in shares.items():
        hostile = _copy(pod, f"{pod['metadata']['name']}-{name}")
        hostile["spec"]["nodeName"] = node
        labels = hostile["metadata"].get("labels", {})
        hostile["metadata"]["labels"] = labels | {"runai-gpu-group": "x"}
        hostile["metadata"]["annotations"] = hostile["metadata"].get("annotations", {}) | notes
        pods.append(hostile)
    return pods


def _copy(pod: Json, name: str) -> Json:
    container = dict(pod["spec"]["containers"][0])
    return pod | {
        "metadata": pod["metadata"] | {"name": name},
        "spec": pod["spec"] | {"containers": [container]},
    }
