"""Pods: how they are made, bound, and deleted with grace. Values in, values out."""

from __future__ import annotations

from laboratory.api_server.answers import (
    Cause,
    Json,
    Named,
    NotServed,
    bad_request,
    conflict,
)
from laboratory.api_server.defaults import admitted_pod, quality_of_service
from laboratory.api_server.metadata import (
    DeleteOptions,
    Target,
    copied,
    marked_for_deletion,
)
from shared.units.times import moment, rfc3339

ENDED = ("Succeeded", "Failed")


def new_pod(item: Json, priority_class: Json | None) -> Json:
    """A pod as it is stored first; its fields have their defaults already."""
    spec = admitted_pod(item["spec"], priority_class)
    return item | {
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": quality_of_service(spec)},
    }


def with_node(target: Target, pod: Json, binding: Json, *, now: float) -> Json:
    """The pod on the node that a Binding names. Raises Refused."""
    given, metadata = binding.get("metadata") or {}, pod["metadata"]
    about = Named(target.name, "pods")
    for key, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if given.get(key) and given[key] != metadata[key]:
            why = f"{name} in precondition: {given[key]}, {name} in object meta: {metadata[key]}"
            raise conflict(about, f"Precondition failed: {why}")
    why = ""
    if "deletionTimestamp" in metadata:
        why = f"pod {target.name} is being deleted, cannot be assigned to a host"
    elif on := pod["spec"].get("nodeName"):
        why = f'pod {target.name} is already assigned to node "{on}"'
    if why:
        raise conflict(Named(target.name, "pods/binding"), why)
    result = copied(pod)
    result["spec"]["nodeName"] = binding["target"]["name"]
    result["status"].pop("nominatedNodeName", None)
    for part in ("annotations", "labels"):
        if changes := given.get(part):
            result["metadata"][part] = result["metadata"].get(part, {}) | changes
    set_condition(result, {"type": "PodScheduled", "status": "True"}, now=now)
    return result


def check_nomination(target: Target, old: Json, new: Json) -> None:
    """Raises Refused."""
    before, nominated = (pod["status"].get("nominatedNodeName") for pod in (old, new))
    if old["spec"].get("nodeName") and nominated and nominated != before:
        why = "Forbidden: may not be set on pods that are already bound to a node"
        raise target.invalid(Cause("status.nominatedNodeName", why))


def check_binding(target: Target, binding: Json) -> None:
    """Raises Refused, NotServed."""
    given, to = binding.get("metadata") or {}, binding.get("target") or {}
    if given.get("name", target.name) != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    if to.get("kind", "Node") != "Node" or not to.get("name"):
        raise NotServed("a binding to something else than a node")


def set_condition(pod: Json, condition: Json, *, now: float) -> None:
    """Set a condition in place, as the server itself does: its time moves with its status."""
    conditions = pod["status"].setdefault("conditions", [])
    new = {"lastProbeTime": None, "lastTransitionTime": rfc3339(now)} | condition
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = new
            return
    conditions.append(new)


def being_deleted(pod: Json, options: DeleteOptions, *, now: float) -> Json:
    """The pod as one that goes once its grace is over; the same one where nothing changes."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return marked_for_deletion(pod, now=now, grace=_grace_of(pod, options))
    before = metadata["deletionGracePeriodSeconds"]
    # What was granted can only become shorter, by who says how long.
    if not before or options.grace is None or options.grace >= before:
        return pod
    grace = max(1, options.grace) if options.grace else 0
    ends = moment(metadata["deletionTimestamp"]) - before + grace
    if ends < now:
        ends, grace = now, min(grace, 1)
    times = {"deletionTimestamp": rfc3339(ends), "deletionGracePeriodSeconds": grace}
    return pod | {"metadata": metadata | times}


def _grace_of(pod: Json, options: DeleteOptions) -> int:
    if not pod["spec"].get("nodeName") or pod["status"]["phase"] in ENDED:
        return 0
    asked = options.grace
    if asked is None:
        asked = int(pod["spec"]["terminationGracePeriodSeconds"])
    return asked if asked >= 0 else 1


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
