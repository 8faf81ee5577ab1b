"""Objects of a recorded cluster that cannot be read: left out, each with its reason.

A pod that runs goes on using its node, so it stays as a pod of somebody else's with the same
requests (:func:`shared.manifests.kubernetes.requests.usage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.errors import Refusal
from shared.manifests.fields.reader import is_qualified
from shared.manifests.kubernetes.requests import usage
from shared.manifests.parse import parse
from shared.model.kai_devices import is_group_label
from shared.units.quantity import unit_of
from shared.units.things import PORT, PORTS_OF_A_POD

Json = dict[str, Any]

ENDED = ("Succeeded", "Failed")


def without_refused(
    items: Iterable[Json], refused: Sequence[Refusal]
) -> tuple[list[Json], set[str], list[str]]:
    """(the objects that are left, pods among them that only use their nodes, one line for each
    refusal)."""
    reasons = {(refusal.kind, refusal.name): refusal for refusal in refused}
    left: list[Json] = []
    foreign: set[str] = set()
    lines: list[str] = []
    for item in items:
        kind, name = str(item.get("kind")), _key(item)
        refusal = reasons.get((kind, name)) or reasons.get((kind, f"default/{name}"))
        if refusal is None:
            left.append(item)
            continue
        pod, unread = reduced_to_usage(item) if _is_on_node(item) else ({}, [])
        if pod == item or isinstance(parse(pod), Refusal):
            lines.append(f"left out: {refusal}")
            continue
        foreign.add(name)
        left.append(pod)
        lines += [f"{refusal}; only its use of the node counts", *unread]
    return left, foreign, lines


def reduced_to_usage(pod: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """(the pod with its identity and its usage alone, one line for each amount of it that could
    not be read): the rest may have fields that the parsers refuse."""
    metadata, spec = _part(pod, "metadata"), _part(pod, "spec")
    used = usage(spec, pod.get("status"))
    kept = ("name", "namespace", "uid", "labels")
    shares_gpus = any(map(is_group_label, _part(metadata, "labels")))
    # KAI's binder has a pod hold each shared GPU for those that share it, who are counted
    # themselves.
    amounts = {
        name: f"{n}m" if unit_of(name) == 1000 else str(n)
        for name, n in used.amounts
        if is_qualified(name) and not (shares_gpus and name.endswith("gpu"))
    }
    ports = [port.removeprefix(PORT).split("/") for port in used.ports[:PORTS_OF_A_POD]]
    container = {
        "name": "c",
        "resources": {"requests": amounts},
        "ports": [{"protocol": protocol, "hostPort": int(number)} for protocol, number in ports],
    }
    lines = [
        f"Pod {_key(pod)}: {at}: cannot be read; it counts as a full node" for at in used.unread
    ]
    if len(used.ports) > PORTS_OF_A_POD:
        lines.append(f"Pod {_key(pod)}: only {PORTS_OF_A_POD} of its host ports count")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"nodeName": spec.get("nodeName"), "containers": [container]},
        "status": {"phase": _part(pod, "status").get("phase", "Running")},
    }, lines


def _is_on_node(item: Mapping[str, Any]) -> bool:
    ended = _part(item, "status").get("phase") in ENDED
    return item.get("kind") == "Pod" and bool(_part(item, "spec").get("nodeName")) and not ended


def _key(item: Mapping[str, Any]) -> str:
    """The object's name as a refusal has it."""
    meta = _part(item, "metadata")
    name, namespace = meta.get("name"), meta.get("namespace")
    if not isinstance(name, str):
        return ""
    return f"{namespace}/{name}" if isinstance(namespace, str) else name


def _part(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = item.get(name)
    return value if isinstance(value, Mapping) else {}
