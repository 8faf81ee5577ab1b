"""What the API server adds to objects of its own kinds, so that they read back as from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from laboratory.api_server.answers import Json, NotServed
from laboratory.api_server.kinds import (
    BUDGET,
    NODE,
    POD,
    PRIORITY_CLASS,
    ServedKind,
)
from laboratory.api_server.metadata import without_nulls

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_POD = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_POD_FIELDS = frozenset(
    {
        *_POD,
        "containers",
        "nodeName",
        "nodeSelector",
        "tolerations",
        "priority",
        "priorityClassName",
        "preemptionPolicy",
    }
)
_CONTAINER_FIELDS = frozenset({*_CONTAINER, "name", "image", "imagePullPolicy"})


def with_defaults(served: ServedKind, item: Json) -> Json:
    """The object with the fields that are always there. Raises NotServed for fields of pods whose
    defaults are not known here."""
    complete = _COMPLETED.get(served.resource)
    if not served.native or complete is None:
        return item
    return complete(without_nulls(item))


def _node(item: Json) -> Json:
    status = dict(item.get("status") or {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])
    if status.get("conditions"):
        times: Json = {"lastHeartbeatTime": None, "lastTransitionTime": None}
        status["conditions"] = [times | condition for condition in status["conditions"]]
    status.setdefault("nodeInfo", dict.fromkeys(_NODE_INFO, ""))
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    spec = {
        key: value for key, value in (item.get("spec") or {}).items() if value not in ("", False)
    }
    return item | {"spec": spec, "status": status}


def _pod(item: Json) -> Json:
    spec = item["spec"]
    if unknown := spec.keys() - _POD_FIELDS:
        raise NotServed(f"pods with {sorted(unknown)}")
    containers = [_container(container) for container in spec["containers"]]
    spec = _POD | spec | {"containers": containers}
    if not spec.get("nodeSelector", True):
        del spec["nodeSelector"]
    status = dict(item.get("status") or {})
    for key in ("nominatedNodeName", "reason", "message"):
        if key in status and not status[key]:
            del status[key]
    if conditions := status.pop("conditions", None):
        times: Json = {"lastProbeTime": None, "lastTransitionTime": None}
        status["conditions"] = [times | condition for condition in conditions]
    if statuses := status.pop("containerStatuses", None):
        status["containerStatuses"] = [_container_status(given) for given in statuses]
    return item | {"spec": spec, "status": status}


def _container_status(given: Json) -> Json:
    state = dict(given.get("state", {}))
    if "terminated" in state:
        times: Json = {"startedAt": None, "finishedAt": None}
        state["terminated"] = times | state["terminated"]
    return {"lastState": {}, **given, "state": state}


def _container(given: Json) -> Json:
    if unknown := given.keys() - _CONTAINER_FIELDS:
        raise NotServed(f"containers with {sorted(unknown)}")
    latest = given["image"].rpartition("/")[2].partition(":")[2] in ("", "latest")
    container = {**_CONTAINER, "imagePullPolicy": "Always" if latest else "IfNotPresent", **given}
    resources = dict(container["resources"])
    if limits := resources.get("limits"):
        resources["requests"] = limits | resources.get("requests", {})
    return container | {"resources": resources}


def admitted_pod(spec: Json, priority_class: Json | None) -> Json:
    """What admission adds to the spec of a new pod."""
    tolerations = list(spec.get("tolerations", ()))
    for key in _TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            effect = {"operator": "Exists", "effect": "NoExecute"}
            seconds = {"tolerationSeconds": _TOLERATED_SECONDS}
            tolerations.append({"key": key} | effect | seconds)
    chosen = priority_class or {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
    return spec | {
        "tolerations": tolerations,
        "priority": chosen["value"],
        "preemptionPolicy": chosen["preemptionPolicy"],
    }


def _tolerates(toleration: Json, key: str) -> bool:
    of_key = toleration.get("key", "") in ("", key)
    return of_key and toleration.get("effect", "") in ("", "NoExecute")


def quality_of_service(spec: Json) -> str:
    amounts = [container["resources"] for container in spec["containers"]]
    of_each = [(part.get("requests", {}), part.get("limits", {})) for part in amounts]
    if not any(_amounts(requests) or _amounts(limits) for requests, limits in of_each):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= limits.keys() and _amounts(requests) == _amounts(limits)
        for requests, limits in of_each
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(given: dict[str, Any]) -> dict[str, Any]:
    """Of what decides on the quality of service."""
    return {name: amount for name, amount in _counted(given) if amount not in ("0", 0)}


def _counted(given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, amount) for name, amount in given.items() if name in ("cpu", "memory"))


def _event(item: Json) -> Json:
    always: Json = {
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    return always | item


def _budget(item: Json) -> Json:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    status = dict.fromkeys(counts, 0) | (item.get("status") or {})
    if not status.get("disruptedPods", True):
        del status["disruptedPods"]
    return item | {"status": status}


def _priority_class(item: Json) -> Json:
    return {"preemptionPolicy": "PreemptLowerPriority"} | item


def _namespace(item: Json) -> Json:
    return item


_COMPLETED: dict[str, Callable[[Json], Json]] = {
    NODE.resource: _node,
    POD.resource: _pod,
    BUDGET.resource: _budget,
    PRIORITY_CLASS.resource: _priority_class,
    "events": _event,
    "leases.coordination.k8s.io": without_nulls,
    "namespaces": _namespace,
}
