"""Nodes, and the tree of network domains over them."""

from __future__ import annotations

from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.amounts import frozen, read_amounts
from shared.manifests.constraints import read_taints
from shared.manifests.fields import Fields, subdomain
from shared.manifests.metadata import read_metadata
from shared.manifests.objects import NodeManifest
from shared.model import HyperNode

_SPEC = frozenset(
    (
        "configSource",
        "externalID",
        "podCIDR",
        "podCIDRs",
        "providerID",
        "taints",
        "unschedulable",
    )
)
_EMPTY: dict[str, object] = {}
_NO_PODS = "status.allocatable.pods: absent, so the node takes no pods; write for example 110"
_MEMBERS = 100_000


def read_node(obj: dict[str, object]) -> NodeManifest:
    """A node offers ``status.allocatable``, or ``status.capacity`` where that is absent."""
    meta = read_metadata(obj, namespaced=False)
    spec = Fields(_EMPTY if obj.get("spec") is None else obj["spec"], "spec")
    spec.only(_SPEC)
    status = Fields(_EMPTY if obj.get("status") is None else obj["status"], "status")
    offered = status.child("allocatable") or status.child("capacity")
    if offered is None:
        raise status.wrong("allocatable", "missing; write at least cpu, memory and pods")
    allocatable = read_amounts(offered)
    return NodeManifest(
        name=meta.name,
        allocatable=frozen(allocatable),
        labels=Fields(obj["metadata"], "metadata").labels("labels"),
        taints=read_taints(spec),
        unschedulable=spec.boolean("unschedulable", False),
        notices=() if "pods" in allocatable else (_NO_PODS,),
    )


def read_hyper_node(obj: dict[str, object]) -> HyperNode:
    """Members by exact name; selecting them by pattern or label is not in this version."""
    meta = read_metadata(obj, namespaced=False)
    spec = Fields(obj.get("spec"), "spec")
    spec.only(frozenset(("tier", "tierName", "members")))
    if spec.data.get("tier") is None:
        raise spec.wrong("tier", "missing; write a whole number, 1 for the closest")
    names: dict[str, list[str]] = {"Node": [], "HyperNode": []}
    for member in spec.children("members", longest=_MEMBERS):
        kind, name = _member(member)
        names[kind].append(name)
    if meta.name in names["HyperNode"]:
        raise InvalidInput("spec.members", None, "it names itself; leave that member out")
    return HyperNode.of(
        name=meta.name,
        tier=spec.integer("tier", 0, high=1000),
        nodes=tuple(names["Node"]),
        children=tuple(names["HyperNode"]),
    )


def _member(member: Fields) -> tuple[str, str]:
    member.only(frozenset(("type", "selector")))
    kind = member.choice("type", ("Node", "HyperNode"), "")
    if not kind:
        raise member.wrong("type", "missing; write Node or HyperNode")
    selector = member.need("selector")
    selector.only(frozenset(("exactMatch",)), later=frozenset(("regexMatch", "labelMatch")))
    if selector.data.get("exactMatch") is None:
        raise not_in_this_version(selector.at, selector.data, "name the member in exactMatch")
    exact = selector.need("exactMatch")
    exact.only(frozenset(("name",)))
    return kind, subdomain(exact.data.get("name"), exact.path("name"))
