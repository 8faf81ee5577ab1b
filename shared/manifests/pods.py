"""Pods: what one asks for as a whole, and where it may run.

The spec is parsed once for all pods that share it: :func:`template` remembers the last few thousand
specs by their bytes, so that the 500 pods of a list cost little more than their names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import orjson

from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.amounts import add, frozen, raise_to, read_amounts
from shared.manifests.between import KeyedSpread, read_spreads, spread_of, term_of
from shared.manifests.constraints import Affinity, read_affinity, read_tolerations
from shared.manifests.fields import INT32, Fields, loose_name, subdomain
from shared.manifests.metadata import (
    GROUP_NAME,
    QUEUE_NAME,
    annotations_of,
    duration_of,
    exit_code_of,
    labels_of,
    read_metadata,
    read_time,
    role_of,
    task_priority_of,
)
from shared.manifests.objects import PodManifest, PodStatus, PodTemplate
from shared.model import Constraints, Pairs
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
        "preemptionPolicy",
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
_RESOURCES = frozenset(("claims", "requests", "limits"))
_GATE = "scheduling.volcano.sh/queue-allocation-gate"
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
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_NO_CONSTRAINTS = Constraints()
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def read_pod(obj: dict[str, object]) -> PodManifest:
    meta = read_metadata(obj, namespaced=True)
    spec, status = obj.get("spec"), obj.get("status")
    told = None if status is None else Fields(status, "status")
    phase = "Pending" if told is None else told.choice("phase", _PHASES, "")
    form = template(spec)
    if told is not None and form.constraints is not None:
        form = _with_own_claims(form, told)
    if not meta.annotations and not meta.labels:
        return PodManifest(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.created,
            labelled(form, ()) if form.keyed else form,
            phase=phase or "Pending",
            deleted=meta.deleted,
            status=None if told is None else told.data,
        )
    group = meta.annotations.get(GROUP_NAME)
    queue = meta.annotations.get(QUEUE_NAME)
    labels = labels_of(meta)
    return PodManifest(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.created,
        labelled(form, labels),
        group=loose_name(group, f"metadata.annotations.{GROUP_NAME}") if group else "",
        role=role_of(meta),
        queue=loose_name(queue, f"metadata.annotations.{QUEUE_NAME}") if queue else "",
        task_priority=task_priority_of(meta),
        duration=duration_of(meta),
        exit_code=exit_code_of(meta),
        phase=phase or "Pending",
        labels=labels,
        annotations=annotations_of(meta),
        deleted=meta.deleted,
        status=None if told is None else told.data,
    )


def read_status(pod: PodManifest) -> PodStatus:
    """What a running cluster tells of a pod."""
    status = Fields(pod.status or {}, "status")
    scheduled = None
    for condition in status.children("conditions", longest=100):
        if condition.data.get("type") == "PodScheduled" and condition.data.get("status") == "True":
            scheduled = read_time(condition, "lastTransitionTime")
    nominated = status.text("nominatedNodeName")
    return PodStatus(
        started=read_time(status, "startTime"),
        scheduled=scheduled,
        nominated=subdomain(nominated, "status.nominatedNodeName") if nominated else "",
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
    if spec.data.get("resources"):
        raise not_in_this_version(spec.path("resources"), spec.data["resources"])
    affinity = read_affinity(spec)
    priority = spec.data.get("priority")
    node_name = spec.text("nodeName")
    gates = [gate.text("name") for gate in spec.children("schedulingGates", longest=100)]
    spreads = read_spreads(spec)
    keyed = any(t.match or t.mismatch for t in affinity.terms) or any(s.match for s in spreads)
    policy = spec.choice("preemptionPolicy", ("PreemptLowerPriority", "Never"), "")
    return PodTemplate(
        requests=_requests(spec),
        selector=tuple(sorted(spec.labels("nodeSelector", longest=100).items())),
        affinity=affinity.required,
        tolerations=read_tolerations(spec),
        priority_class=spec.text("priorityClassName"),
        priority=None if priority is None else spec.integer("priority", 0, low=-INT32 - 1),
        gated=bool(gates),
        node_name=subdomain(node_name, spec.path("nodeName")) if node_name else "",
        own_gate=gates == [_GATE],
        constraints=_constraints(spec, affinity, () if keyed else spreads, keyed=keyed),
        keyed=keyed,
        keyed_terms=affinity.terms if keyed else (),
        keyed_spreads=spreads if keyed else (),
        images=_images(spec),
        preempts=None if not policy else policy != "Never",
    )


def labelled(template: PodTemplate, labels: Pairs) -> PodTemplate:
    """The template of a pod with these labels: the same, but where terms take values from them."""
    if not template.keyed:
        return template
    keys = {key for term in template.keyed_terms for key in (*term.match, *term.mismatch)}
    keys |= {key for spread in template.keyed_spreads for key in spread.match}
    return _labelled(template, tuple(pair for pair in labels if pair[0] in keys))


@lru_cache(maxsize=4096)
def _labelled(template: PodTemplate, labels: Pairs) -> PodTemplate:
    values = dict(labels)
    return replace(
        template,
        constraints=replace(
            template.constraints or Constraints(),
            pod_terms=tuple(term_of(term, values) for term in template.keyed_terms),
            spreads=tuple(spread_of(spread, values) for spread in template.keyed_spreads),
        ),
        keyed=False,
        keyed_terms=(),
        keyed_spreads=(),
    )


def _with_own_claims(template: PodTemplate, status: Fields) -> PodTemplate:
    """Once the claims of a pod are made from their templates, it names those claims."""
    assert template.constraints is not None
    wanted = template.constraints.claim_templates
    if not wanted or not status.data.get("resourceClaimStatuses"):
        return template
    names = tuple(
        subdomain(claim.data["resourceClaimName"], claim.path("resourceClaimName"))
        for claim in status.children("resourceClaimStatuses", longest=100)
        if claim.data.get("resourceClaimName") is not None
    )
    if len(names) != len(wanted):
        return template
    claims = tuple(sorted({*template.constraints.claims, *names}))
    constraints = replace(template.constraints, claims=claims, claim_templates=())
    return replace(template, constraints=constraints)


# --- what it asks for beside amounts ----------------------------------------------------------


def _constraints(
    spec: Fields, affinity: Affinity, spreads: tuple[KeyedSpread, ...], *, keyed: bool
) -> Constraints | None:
    claims, templates = _claims(spec)
    found = Constraints(
        pod_terms=() if keyed else tuple(term.term for term in affinity.terms),
        spreads=tuple(spread.spread for spread in spreads),
        preferred_nodes=affinity.preferred,
        volumes=_volumes(spec),
        claims=claims,
        claim_templates=templates,
    )
    return None if found == _NO_CONSTRAINTS else found


def _volumes(spec: Fields) -> tuple[str, ...]:
    """Names of the PersistentVolumeClaims."""
    names: set[str] = set()
    for volume in spec.children("volumes"):
        volume.only(_VOLUMES, later=frozenset(volume.data) - _VOLUMES, empty_ok=False)
        claim = volume.child("persistentVolumeClaim")
        if claim is not None:
            claim.only(frozenset(("claimName", "readOnly")))
            names.add(subdomain(claim.data.get("claimName"), claim.path("claimName")))
    return tuple(sorted(names))


def _claims(spec: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of ResourceClaims, and of the templates of such."""
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    found: tuple[list[str], list[str]] = ([], [])
    for claim in spec.children("resourceClaims", longest=100):
        claim.only(frozenset(("name", *sources)))
        given = [name for name in sources if claim.data.get(name) is not None]
        if len(given) != 1:
            message = "wants exactly one of resourceClaimName and resourceClaimTemplateName"
            raise InvalidInput(claim.at, claim.data, f"{message}; write one of them")
        name = subdomain(claim.data[given[0]], claim.path(given[0]))
        found[sources.index(given[0])].append(name)
    return tuple(sorted(found[0])), tuple(sorted(found[1]))


def _images(spec: Fields) -> tuple[str, ...]:
    """With a tag each, as nodes tell them."""
    images = [
        container.text("image", longest=1024)
        for part in ("initContainers", "containers")
        for container in spec.children(part)
    ]
    return tuple(with_tag(image) for image in images if image)


def with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


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
    resources.only(_RESOURCES)
    for claim in resources.children("claims", longest=100):
        claim.only(frozenset(("name", "request")))
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
