"""Pods: what one asks for as a whole, and where it may run.

The spec is parsed once for all pods that share it: :func:`template` remembers the last few thousand
specs by their bytes, so that the 500 pods of a list cost little more than their names.
"""

from __future__ import annotations

from functools import lru_cache

import orjson

from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.amounts import add, frozen, raise_to, read_amounts
from shared.manifests.constraints import read_affinity, read_tolerations
from shared.manifests.fields import INT32, Fields, loose_name, subdomain
from shared.manifests.metadata import (
    GROUP_NAME,
    QUEUE_NAME,
    duration_of,
    exit_code_of,
    read_metadata,
    role_of,
    task_priority_of,
)
from shared.manifests.objects import PodManifest, PodTemplate
from shared.slots import port_slot

_HANDLED = frozenset(
    (
        "affinity",
        "containers",
        "hostNetwork",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "priority",
        "priorityClassName",
        "resourceClaims",
        "resources",
        "schedulingGates",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    )
)
_HARMLESS = frozenset(
    (
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "os",
        "preemptionPolicy",
        "readinessGates",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
    )
)
_KNOWN = _HANDLED | _HARMLESS
_CONTAINER = frozenset(
    (
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    )
)
_RESOURCES = frozenset(("requests", "limits"))
_PORT = frozenset(("containerPort", "hostIP", "hostPort", "name", "protocol"))
_VOLUMES = frozenset(
    (
        "configMap",
        "downwardAPI",
        "emptyDir",
        "hostPath",
        "image",
        "name",
        "nfs",
        "projected",
        "secret",
    )
)
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def read_pod(obj: dict[str, object]) -> PodManifest:
    meta = read_metadata(obj, namespaced=True)
    spec, status = obj.get("spec"), obj.get("status")
    phase = "Pending" if status is None else Fields(status, "status").choice("phase", _PHASES, "")
    if not meta.annotations and not meta.labels:
        return PodManifest(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.created,
            template(spec),
            phase=phase or "Pending",
            deleting=meta.deleting,
        )
    group = meta.annotations.get(GROUP_NAME)
    queue = meta.annotations.get(QUEUE_NAME)
    return PodManifest(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.created,
        template(spec),
        group=loose_name(group, f"metadata.annotations.{GROUP_NAME}") if group else "",
        role=role_of(meta),
        queue=loose_name(queue, f"metadata.annotations.{QUEUE_NAME}") if queue else "",
        task_priority=task_priority_of(meta),
        duration=duration_of(meta),
        exit_code=exit_code_of(meta),
        phase=phase or "Pending",
        deleting=meta.deleting,
    )


def template(spec: object, at: str = "spec") -> PodTemplate:
    """The template of a pod's spec; equal specs give the same object while it is remembered."""
    if type(spec) is not dict:
        raise InvalidInput(at, spec, "missing or not an object; it must hold the containers")
    try:
        return _template(orjson.dumps(spec), at)
    except TypeError as error:
        raise InvalidInput(at, None, "not plain JSON, or nested too deep; flatten it") from error


@lru_cache(maxsize=4096)
def _template(data: bytes, at: str) -> PodTemplate:
    spec = Fields(orjson.loads(data), at)
    spec.only(_KNOWN)
    notices: list[str] = []
    _refuse_what_is_missing_here(spec, notices)
    priority = spec.data.get("priority")
    node_name = spec.text("nodeName")
    return PodTemplate(
        requests=_requests(spec),
        selector=tuple(sorted(spec.labels("nodeSelector", longest=100).items())),
        affinity=read_affinity(spec, notices),
        tolerations=read_tolerations(spec),
        priority_class=spec.text("priorityClassName"),
        priority=None if priority is None else spec.integer("priority", 0, low=-INT32 - 1),
        gated=bool(spec.array("schedulingGates")),
        node_name=subdomain(node_name, spec.path("nodeName")) if node_name else "",
        notices=tuple(notices),
    )


def _refuse_what_is_missing_here(spec: Fields, notices: list[str]) -> None:
    """Conditions on the placement that this version cannot keep."""
    for name in ("resourceClaims", "resources"):
        if spec.data.get(name):
            raise not_in_this_version(spec.path(name), spec.data[name])
    for spread in spec.children("topologySpreadConstraints", longest=100):
        wish = spread.choice(
            "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule"
        )
        if wish == "DoNotSchedule":
            raise not_in_this_version(
                spread.at, spread.data, "leave it out or write whenUnsatisfiable: ScheduleAnyway"
            )
        notices.append(f"{spread.at}: this version does not look at it")
    for volume in spec.children("volumes"):
        volume.only(_VOLUMES, later=frozenset(volume.data) - _VOLUMES, empty_ok=False)


# --- amounts ----------------------------------------------------------------------------------


def _requests(spec: Fields) -> tuple[tuple[str, int], ...]:
    """Kubernetes' rule: the sum of the containers or the largest moment of the start, and overhead.

    Init containers run one after another; one that restarts always (a sidecar) stays, and is there
    during every later step.
    """
    total: dict[str, int] = {}
    ports: dict[str, int] = {}
    host_network = spec.boolean("hostNetwork", False)
    for container in spec.children("containers"):
        add(total, _container(container))
        _host_ports(container, host_network, ports)
    start: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.children("initContainers"):
        step = _container(container)
        if container.text("restartPolicy") == "Always":
            add(total, step)
            add(sidecars, step)
            _host_ports(container, host_network, ports)
            step = sidecars
        else:
            add(step, sidecars)
        raise_to(start, step)
    raise_to(total, start)
    add(total, read_amounts(spec.child("overhead")))
    return frozen(total | ports)


def _container(container: Fields) -> dict[str, int]:
    """The requests of one container; a resource with a limit only requests its limit."""
    container.only(_CONTAINER)
    resources = container.child("resources")
    if resources is None:
        return {}
    resources.only(_RESOURCES, later=frozenset(("claims",)))
    requests = read_amounts(resources.child("requests"))
    limits = read_amounts(resources.child("limits"))
    for name, limit in limits.items():
        if requests.setdefault(name, limit) > limit:
            path = resources.path(f"requests.{name}")
            raise InvalidInput(path, None, "more than its limit; lower it or raise the limit")
    if "pods" in requests:
        path = resources.path("requests.pods")
        raise InvalidInput(path, None, "every pod counts as one by itself; leave it out")
    return requests


def _host_ports(container: Fields, host_network: bool, ports: dict[str, int]) -> None:
    """Host ports as slots of which a node has one; with hostNetwork every port is the host's.

    The address (hostIP) is not looked at: one number and protocol is used once on a node.
    """
    for port in container.children("ports"):
        port.only(_PORT)
        number = port.integer("hostPort", 0, high=65535)
        if host_network and not number:
            number = port.integer("containerPort", 0, high=65535)
        protocol = port.choice("protocol", ("TCP", "UDP", "SCTP"), "TCP")
        if number:
            ports[port_slot(protocol, number)] = 1
