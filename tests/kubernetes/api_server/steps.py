"""Random requests about a few objects, so that they meet each other.

A request names versions and uids by :class:`Ref`: each server has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from laboratory.local_kubernetes.client import MERGE_PATCH, STRATEGIC_PATCH
from laboratory.local_kubernetes.kubelets import ended, ready_node, started

Json = dict[str, Any]

CORE = "/api/v1"
PODS = f"{CORE}/namespaces/default/pods"
NODES = f"{CORE}/nodes"
EVENTS = f"{CORE}/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
COLLECTIONS = (PODS, NODES, EVENTS, LEASES, BUDGETS, CLASSES, GROUPS, QUEUES)

_NAMES = ("a", "b", "c")
_APPS = ("web", "batch")


@dataclass(frozen=True, slots=True)
class Ref:
    """The uid or the version of an object: as it was seen last, as it was seen first, or another's
    that it never had."""

    what: Literal["uid", "version"]
    path: str
    which: Literal["last", "first", "other"]


@dataclass(frozen=True, slots=True)
class Step:
    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    form: str = "application/json"

    @property
    def about(self) -> str:
        """The path of the object that it may change; "" for a list."""
        if self.method == "POST" and self.path in COLLECTIONS:
            return f"{self.path}/{self.body['metadata']['name']}"
        for sub in ("/status", "/binding", "/eviction"):
            if self.path.endswith(sub):
                return self.path.removesuffix(sub)
        return "" if self.path in COLLECTIONS or "limit" in self.query else self.path


def steps(draw: Random, count: int) -> Iterator[Step]:
    """Begins with what most requests need."""
    yield _created(NODES, ready_node("n1", {"cpu": "4", "memory": "8Gi", "pods": "110"}, {}))
    yield _created(CLASSES, _class("high", 1000))
    kinds, weights = zip(*_KINDS, strict=True)
    for _ in range(count):
        [kind] = draw.choices(kinds, weights)
        yield from kind(draw)


# --- objects ------------------------------------------------------------------------------------


def _created(collection: str, item: Json) -> Step:
    return Step("POST", collection, item)


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _class(name: str, value: int) -> Json:
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)


def pod(draw: Random, name: str) -> Json:
    resources: Json = draw.choice(
        [
            {},
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            {"limits": {"cpu": "1", "memory": "1Gi"}},
        ]
    )
    image = draw.choice(["i", "registry.example.com:5000/i", "i:1.2", "i:latest"])
    container: Json = {"name": "c", "image": image}
    if resources or draw.random() < 0.5:
        container["resources"] = resources
    spec: Json = {"schedulerName": "quadrant", "containers": [container]}
    if draw.random() < 0.5:
        spec["terminationGracePeriodSeconds"] = draw.choice([0, 1, 60])
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(["high", "high", "missing"])
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    if draw.random() < 0.2:
        spec["restartPolicy"] = "Never"
    if draw.random() < 0.2:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    item = _object("v1", "Pod", name, spec=spec)
    item["metadata"] |= {"namespace": "default", "labels": {"app": draw.choice(_APPS)}}
    if draw.random() < 0.4:
        item["metadata"]["annotations"] = draw.choice([{}, {"group": "g"}])
    if draw.random() < 0.2:
        item["metadata"]["finalizers"] = ["example.com/wait"]
    return item


def _new(draw: Random) -> Iterator[Step]:
    name = draw.choice(_NAMES)
    match draw.randrange(10):
        case 0:
            size = {"cpu": draw.choice(["4", "8"]), "memory": "8Gi", "pods": "110"}
            yield _created(NODES, ready_node(f"n{draw.randrange(3)}", size, {"zone": name}))
        case 1:
            spec = {"minMember": draw.randrange(1, 4), "queue": "default"}
            group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec=spec)
            if draw.random() < 0.3:
                group["metadata"]["finalizers"] = ["example.com/wait"]
            if draw.random() < 0.3:
                group["status"] = {"phase": "Pending"}
            yield _created(GROUPS, group)
        case 2:
            queue = _object("scheduling.volcano.sh/v1beta1", "Queue", name, spec={"weight": 1})
            yield _created(QUEUES, queue | draw.choice([{}, {"status": {"state": "Open"}}]))
        case 3 | 4:
            labels = {"matchLabels": {"app": draw.choice(_APPS)}}
            spec = {"minAvailable": draw.randrange(2), "selector": labels}
            yield _created(BUDGETS, _object("policy/v1", "PodDisruptionBudget", name, spec=spec))
        case 5:
            yield _created(CLASSES, _class(name, draw.randrange(100)))
        case 6:
            spec = {"holderIdentity": "x", "leaseDurationSeconds": 15}
            yield _created(LEASES, _object("coordination.k8s.io/v1", "Lease", name, spec=spec))
        case 7:
            yield _created(EVENTS, _event(name, draw))
        case 8:
            item = pod(draw, name)
            item["metadata"]["namespace"] = "nowhere"
            elsewhere = PODS.replace("default", "nowhere")
            yield Step("POST", draw.choice([PODS, elsewhere]), item)
        case _:
            yield _created(PODS, pod(draw, name))


def _event(name: str, draw: Random) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"}
    event = _object(
        "v1",
        "Event",
        name,
        involvedObject=about | {"uid": "some"},
        reason="FailedScheduling",
        message="there is no room",
        type="Warning",
        count=1,
    )
    if draw.random() < 0.5:
        event |= {
            "firstTimestamp": "2026-01-31T12:00:00Z",
            "lastTimestamp": "2026-01-31T12:00:00Z",
            "source": {"component": "quadrant"},
            "reportingComponent": "quadrant",
            "reportingInstance": "",
            "eventTime": None,
        }
    return event


def _new_pod(draw: Random) -> Iterator[Step]:
    yield _created(PODS, pod(draw, draw.choice(_NAMES)))


# --- changes ------------------------------------------------------------------------------------


def _preconditions(draw: Random, path: str, *, version: str = "resourceVersion") -> Json:
    """Of an object's metadata, or of a deletion: mostly none."""
    found: Json = {}
    if draw.random() < 0.4:
        found["uid"] = Ref("uid", path, draw.choice(["last", "last", "other"]))
    if draw.random() < 0.4:
        found[version] = Ref("version", path, draw.choice(["last", "last", "first"]))
    return found


def _bind(draw: Random) -> Iterator[Step]:
    name = draw.choice(_NAMES)
    path = f"{PODS}/{name}"
    metadata: Json = {"name": name, "namespace": "default"} | _preconditions(draw, path)
    if draw.random() < 0.5:
        metadata["annotations"] = {"statement": f"x/{draw.randrange(9)}"}
    if draw.random() < 0.3:
        metadata["labels"] = {"placed": "yes", "app": draw.choice(_APPS)}
    target = {"apiVersion": "v1", "kind": "Node", "name": draw.choice(["n1", "n2", "nowhere"])}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    yield Step("POST", f"{path}/binding", binding)


def _patch_metadata(draw: Random) -> Iterator[Step]:
    collection = draw.choice([PODS, PODS, PODS, *COLLECTIONS])
    path = f"{collection}/{draw.choice(_NAMES)}" if collection != NODES else f"{NODES}/n1"
    change: Json = _preconditions(draw, path)
    match draw.randrange(4):
        case 0:
            change["labels"] = {"app": draw.choice([*_APPS, None])}
        case 1:
            change["annotations"] = {"told": draw.choice(["yes", "no", None])}
        case 2:
            change["finalizers"] = draw.choice([None, []])
        case _:
            change["annotations"] = draw.choice([None, {}])
    yield Step("PATCH", path, {"metadata": change}, form=MERGE_PATCH)


def _patch_pod_status(draw: Random) -> Iterator[Step]:
    name = draw.choice(_NAMES)
    path = f"{PODS}/{name}"
    metadata = _preconditions(draw, path)
    unscheduled: Json = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    whole = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    status: Json = draw.choice(
        [
            _without_time(started()),
            _without_time(started()),
            {"conditions": [unscheduled | {"message": draw.choice(["no room", "no node"])}]},
            {"conditions": [unscheduled], "nominatedNodeName": draw.choice(["n1", None])},
            {"nominatedNodeName": draw.choice(["n2", None])},
            {"phase": "Running"},
            ended(whole, draw.choice([0, 1])),
            {"phase": "Failed", "reason": "NodeLost", "message": "the node is gone"},
        ]
    )
    body = {"metadata": metadata, "status": status} if metadata else {"status": status}
    yield Step("PATCH", f"{path}/status", body, form=STRATEGIC_PATCH)


def _without_time(status: Json) -> Json:
    """Of one and the same moment for both servers."""
    at = "2026-01-31T12:00:00Z"
    conditions = [c | {"lastTransitionTime": at} for c in status["conditions"]]
    return status | {"startTime": at, "conditions": conditions}


def _run_pod(draw: Random) -> Iterator[Step]:
    """Bound and running, as most pods are that are evicted."""
    path = f"{PODS}/{draw.choice(_NAMES)}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    metadata = {"name": path.rpartition("/")[2], "namespace": "default"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    yield Step("POST", f"{path}/binding", binding)
    status = {"status": _without_time(started())}
    yield Step("PATCH", f"{path}/status", status, form=STRATEGIC_PATCH)


def _patch_others(draw: Random) -> Iterator[Step]:
    name, body = draw.choice(_NAMES), dict[str, Any]()
    spec, status = dict[str, Any](), dict[str, Any]()
    match draw.randrange(10):
        case 0:
            spec = {"minMember": draw.randrange(1, 4)}
            yield Step("PATCH", f"{GROUPS}/{name}", {"spec": spec}, form=MERGE_PATCH)
        case 1:
            status = {"phase": draw.choice(["Running", "Pending", None])}
            body = {"metadata": _preconditions(draw, f"{GROUPS}/{name}"), "status": status}
            yield Step("PATCH", f"{GROUPS}/{name}", body, form=MERGE_PATCH)
        case 2:
            status = {"phase": "Running"}
            sub = draw.choice(["", "/status"])
            form = STRATEGIC_PATCH if not sub else MERGE_PATCH
            yield Step("PATCH", f"{GROUPS}/{name}{sub}", {"status": status}, form=form)
        case 3:
            allocated = {"cpu": str(draw.randrange(4))}
            body = {
                "metadata": {"labels": {"not": "taken"}} | _preconditions(draw, f"{QUEUES}/{name}"),
                "status": {"allocated": allocated},
                "spec": {"weight": 9},
            }
            yield Step("PATCH", f"{QUEUES}/{name}/status", body, form=MERGE_PATCH)
        case 4:
            body = {"spec": {"weight": draw.randrange(1, 4)}, "status": {"state": "Closed"}}
            yield Step("PATCH", f"{QUEUES}/{name}", body, form=MERGE_PATCH)
        case 5:
            spec = {"unschedulable": draw.choice([True, False, None])}
            yield Step("PATCH", f"{NODES}/n1", {"spec": spec}, form=draw.choice(_FORMS))
        case 6:
            ready = {"type": "Ready", "status": draw.choice(["True", "False"])}
            other = {"type": "DiskPressure", "status": "False"}
            status = {"conditions": draw.choice([[ready], [other], [other, ready]])}
            yield Step("PATCH", f"{NODES}/n1/status", {"status": status}, form=STRATEGIC_PATCH)
        case 7:
            yield from _lease(draw, f"{LEASES}/{name}", name)
        case 8:
            body = {"message": "there is less room", "count": draw.randrange(2, 4)}
            yield Step("PATCH", f"{EVENTS}/{name}", body, form=MERGE_PATCH)
        case _:
            spec = {"minAvailable": draw.randrange(3)}
            yield Step("PATCH", f"{BUDGETS}/{name}", {"spec": spec}, form=MERGE_PATCH)


_FORMS = (MERGE_PATCH, STRATEGIC_PATCH)


def _lease(draw: Random, path: str, name: str) -> Iterator[Step]:
    at = f"2026-01-31T12:00:0{draw.randrange(9)}.000000Z"
    metadata = _preconditions(draw, path)
    spec: Json = {"holderIdentity": draw.choice(["x", "y", ""]), "renewTime": at}
    if draw.random() < 0.6:
        body = {"metadata": metadata, "spec": spec}
        yield Step("PATCH", path, body, form=MERGE_PATCH)
        return
    metadata = {
        "name": name,
        "resourceVersion": Ref("version", path, draw.choice(["last", "first"])),
    }
    lease = _object("coordination.k8s.io/v1", "Lease", name, spec=spec)
    yield Step("PUT", path, lease | {"metadata": metadata})


def _count_budget(draw: Random) -> Iterator[Step]:
    """As the disruption controller writes it."""
    path = f"{BUDGETS}/{draw.choice(_NAMES)}"
    healthy = draw.randrange(3)
    status = {
        "observedGeneration": draw.choice([1, 1, 2]),
        "expectedPods": healthy,
        "desiredHealthy": 1,
        "currentHealthy": healthy,
        "disruptionsAllowed": max(0, healthy - 1),
        "disruptedPods": dict.fromkeys(_NAMES),
    }
    body = {"metadata": _preconditions(draw, path), "status": status}
    yield Step("PATCH", f"{path}/status", body, form=MERGE_PATCH)


def _evict(draw: Random) -> Iterator[Step]:
    name = draw.choice(_NAMES)
    path = f"{PODS}/{name}"
    eviction: Json = _object("policy/v1", "Eviction", name)
    eviction["metadata"]["namespace"] = "default"
    if draw.random() < 0.6:
        # A wrong uid of a pod that does not run is tried again for ten seconds by the real one.
        which: Literal["last", "other"] = "other" if draw.random() < 0.05 else "last"
        uid = Ref("uid", path, which)
        eviction["deleteOptions"] = {"preconditions": {"uid": uid}}
    yield Step("POST", f"{path}/eviction", eviction)


def _delete(draw: Random) -> Iterator[Step]:
    collection = draw.choice([PODS, PODS, PODS, *COLLECTIONS])
    path = f"{collection}/{draw.choice(_NAMES)}"
    body: Json = {}
    if draw.random() < 0.5:
        body["gracePeriodSeconds"] = draw.choice([0, 0, 5, 100])
    if preconditions := _preconditions(draw, path):
        body["preconditions"] = preconditions
    yield Step("DELETE", path, body or None)


# --- reads --------------------------------------------------------------------------------------


def _read(draw: Random) -> Iterator[Step]:
    collection = draw.choice(COLLECTIONS)
    if draw.random() < 0.3:
        yield Step("GET", f"{collection}/{draw.choice(_NAMES)}")
        return
    query: dict[str, str] = {}
    if draw.random() < 0.5:
        query["labelSelector"] = draw.choice(["app=web", "app!=web", "app==batch,placed=yes"])
    if collection == PODS and draw.random() < 0.5:
        terms = ["spec.nodeName!=", "spec.nodeName=n1", "status.phase=Running", "metadata.name=a"]
        query["fieldSelector"] = draw.choice(terms)
    yield Step("GET", collection, query=query)


def _read_nothing(draw: Random) -> Iterator[Step]:
    paths = ("/apis/scheduling.volcano.sh/v1beta1/nothings", "/apis/nobody.example.com/v1/things")
    yield Step("GET", draw.choice([*paths, f"{CORE}/nothings"]))


_KINDS: tuple[tuple[Callable[[Random], Iterator[Step]], int], ...] = (
    (_new, 8),
    (_new_pod, 8),
    (_bind, 6),
    (_run_pod, 5),
    (_patch_metadata, 8),
    (_patch_pod_status, 8),
    (_patch_others, 10),
    (_count_budget, 5),
    (_evict, 6),
    (_delete, 7),
    (_read, 6),
    (_read_nothing, 1),
)
