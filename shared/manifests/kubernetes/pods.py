"""Parsing of pods: total requests, and constraints on nodes.

A spec is parsed once for all pods that share it: :func:`template` caches the last few thousand
specs by their bytes, so that 500 pods of a list cost little more than their names.
"""

from __future__ import annotations

from hashlib import blake2b

import orjson

from shared.byte_cache import MIB, byte_cache
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.fields.amounts import add, frozen, read_amounts
from shared.manifests.fields.metadata import (
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
    with_scheduler,
)
from shared.manifests.fields.reader import INT32, Fields, loose_name, subdomain
from shared.manifests.fields.shapes import ACCEPTED
from shared.manifests.kubernetes.constraints import Affinity, read_affinity, read_tolerations
from shared.manifests.kubernetes.groups import scheduling_group_of
from shared.manifests.kubernetes.objects import PodManifest, PodStatus, PodTemplate
from shared.manifests.kubernetes.pod_affinity import KeyedSpread, read_spreads, spread_of, term_of
from shared.manifests.kubernetes.requests import (
    apply_pod_level,
    has_resources,
    is_pod_level,
    summed,
    usage,
)
from shared.model.constraints import Constraints
from shared.model.model import Pairs
from shared.model.storage import Amounts
from shared.units.quantity import unit_of
from shared.units.things import PORTS_OF_A_POD, Things, port_name

_GATE = "scheduling.volcano.sh/queue-allocation-gate"
_VOLUMES = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "iscsi",
        "name",
        "nfs",
        "persistentVolumeClaim",
        "photonPersistentDisk",
        "portworxVolume",
        "projected",
        "quobyte",
        "rbd",
        "scaleIO",
        "secret",
        "storageos",
        "vsphereVolume",
    )
)
TOO_MANY_PORTS = (
    f"a pod may take at most {PORTS_OF_A_POD} ports of its node; publish the others by a Service, "
    "or leave out those of a pod with hostNetwork that nobody looks up"
)
_NOT_WHOLE = (
    "not a whole number; ask for whole ones, or for a share of a GPU in the way of its policy "
    "(docs/gpu-sharing.md)"
)
_NO_CONSTRAINTS = Constraints()
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def read_pod(obj: dict[str, object]) -> PodManifest:
    meta = read_metadata(obj, namespaced=True)
    spec, status = obj.get("spec"), obj.get("status")
    status_fields = None if status is None else Fields(status, "status")
    phase = "Pending" if status_fields is None else status_fields.choice("phase", _PHASES, "")
    form = template(spec)
    native_group = scheduling_group_of(spec) if isinstance(spec, dict) else ""
    if form.ephemeral:
        form = _with_own_volumes(form, meta.name)
    if status_fields is not None:
        if form.constraints is not None:
            form = _with_own_claims(form, status_fields)
        if has_resources(status_fields.data):
            form = _resized(form, usage(spec, status_fields.data).amounts)
    if not meta.annotations and not meta.labels:
        return PodManifest(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.created,
            labelled(form, ()) if form.keyed else form,
            phase=phase or "Pending",
            annotations=with_scheduler((), form.scheduler),
            group=native_group,
            native=bool(native_group),
            deleted=meta.deleted,
            status=None if status_fields is None else status_fields.data,
        )
    group = None if native_group else meta.annotations.get(GROUP_NAME)
    queue = meta.annotations.get(QUEUE_NAME)
    labels = labels_of(meta)
    return PodManifest(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.created,
        labelled(form, labels),
        group=loose_name(group, f"metadata.annotations.{GROUP_NAME}") if group else native_group,
        native=bool(native_group),
        role=role_of(meta),
        queue=loose_name(queue, f"metadata.annotations.{QUEUE_NAME}") if queue else "",
        task_priority=task_priority_of(meta),
        duration=duration_of(meta),
        exit_code=exit_code_of(meta),
        phase=phase or "Pending",
        labels=labels,
        annotations=with_scheduler(annotations_of(meta), form.scheduler),
        deleted=meta.deleted,
        status=None if status_fields is None else status_fields.data,
    )


def read_status(pod: PodManifest) -> PodStatus:
    """Parse the part of a pod's status that a running cluster reports."""
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
    """The template of a pod's spec. Equal specs give the same object while it is cached."""
    if type(spec) is not dict:
        raise InvalidInput(at, spec, "missing or not an object; it must hold the containers")
    try:
        data = orjson.dumps(spec)
    except TypeError as error:
        raise InvalidInput(at, None, "not plain JSON, or nested too deep; flatten it") from error
    if len(data) <= LONGEST_KEY:
        return _template(data, at)
    return _template_of_long(_LongSpec(data), at)


LONGEST_KEY = 1 << 12
"""Bytes of a spec that is its own key in the cache; a longer one is known by its digest."""


class _LongSpec:
    """A spec that is equal to others by its digest, and holds its text only until it is read."""

    __slots__ = ("data", "digest")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.digest = blake2b(data, digest_size=32).digest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LongSpec) and self.digest == other.digest


@byte_cache("long-pod-templates", 8 * MIB)
def _template_of_long(spec: _LongSpec, at: str) -> PodTemplate:
    data, spec.data = spec.data, b""
    return _read_template(data, at)


@byte_cache("pod-templates", 16 * MIB)
def _template(data: bytes, at: str) -> PodTemplate:
    return _read_template(data, at)


def _read_template(data: bytes, at: str) -> PodTemplate:
    spec = Fields(orjson.loads(data), at)
    spec.check("PodSpec")
    affinity = read_affinity(spec)
    priority = spec.data.get("priority")
    node_name = spec.text("nodeName")
    gates = [gate.text("name") for gate in spec.children("schedulingGates", longest=100)]
    spreads = read_spreads(spec)
    keyed = any(t.match or t.mismatch for t in affinity.terms) or any(s.match for s in spreads)
    policy = spec.choice("preemptionPolicy", ("PreemptLowerPriority", "Never"), "")
    return PodTemplate(
        requests=_requests(spec),
        things=_host_ports(spec),
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
        scheduler=spec.text("schedulerName"),
        ephemeral=tuple(
            volume.text("name") for volume in spec.children("volumes") if volume.child("ephemeral")
        ),
    )


def labelled(template: PodTemplate, labels: Pairs) -> PodTemplate:
    """The template of a pod with these labels: the same object unless terms depend on labels."""
    if not template.keyed:
        return template
    keys = {key for term in template.keyed_terms for key in (*term.match, *term.mismatch)}
    keys |= {key for spread in template.keyed_spreads for key in spread.match}
    return _labelled(template, tuple(pair for pair in labels if pair[0] in keys))


@byte_cache("labelled-templates", 8 * MIB)
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


def _with_own_volumes(template: PodTemplate, pod: str) -> PodTemplate:
    """The template with the claims that the cluster creates of the pod's ephemeral volumes."""
    before = template.constraints or _NO_CONSTRAINTS
    claims = {subdomain(f"{pod}-{volume}", "metadata.name") for volume in template.ephemeral}
    volumes = tuple(sorted({*before.volumes, *claims}))
    return replace(template, constraints=replace(before, volumes=volumes), ephemeral=())


@byte_cache("resized-templates", 8 * MIB)
def _resized(template: PodTemplate, requests: Amounts) -> PodTemplate:
    """The template of a pod that has, or is to get, other amounts than its spec asks for."""
    return template if requests == template.requests else replace(template, requests=requests)


def _with_own_claims(template: PodTemplate, status: Fields) -> PodTemplate:
    """The template with the names of the pod's own claims, once they are created from templates."""
    assert template.constraints is not None
    claim_templates = template.constraints.claim_templates
    if not claim_templates or not status.data.get("resourceClaimStatuses"):
        return template
    names = tuple(
        subdomain(claim.data["resourceClaimName"], claim.path("resourceClaimName"))
        for claim in status.children("resourceClaimStatuses", longest=100)
        if claim.data.get("resourceClaimName") is not None
    )
    # Some are not created yet: until then the pod is judged by its templates, all of them alike.
    if len(names) != len(claim_templates):
        return template
    claims = tuple(sorted({*template.constraints.claims, *names}))
    constraints = replace(template.constraints, claims=claims, claim_templates=())
    return replace(template, constraints=constraints)


# --- what it asks for beside amounts ----------------------------------------------------------


def _constraints(
    spec: Fields, affinity: Affinity, spreads: tuple[KeyedSpread, ...], *, keyed: bool
) -> Constraints | None:
    claims, templates = _claims(spec)
    constraints = Constraints(
        pod_terms=() if keyed else tuple(term.term for term in affinity.terms),
        spreads=tuple(spread.spread for spread in spreads),
        preferred_nodes=affinity.preferred,
        volumes=_volumes(spec),
        claims=claims,
        claim_templates=templates,
    )
    return None if constraints == _NO_CONSTRAINTS else constraints


def _volumes(spec: Fields) -> tuple[str, ...]:
    """Names of the PersistentVolumeClaims."""
    names: set[str] = set()
    for volume in spec.children("volumes"):
        volume.only(_VOLUMES, later=frozenset(volume.data) - _VOLUMES, empty_ok=False)
        claim = volume.child("persistentVolumeClaim")
        if claim is not None:
            claim.check("PersistentVolumeClaimSource")
            names.add(subdomain(claim.data.get("claimName"), claim.path("claimName")))
    return tuple(sorted(names))


def _claims(spec: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names of ResourceClaims, names of ResourceClaimTemplates)."""
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    names_by_source: tuple[list[str], list[str]] = ([], [])
    for claim in spec.children("resourceClaims", longest=100):
        claim.check("PodClaim")
        named_sources = [name for name in sources if claim.data.get(name) is not None]
        if len(named_sources) != 1:
            message = "wants exactly one of resourceClaimName and resourceClaimTemplateName"
            raise InvalidInput(claim.at, claim.data, f"{message}; write one of them")
        name = subdomain(claim.data[named_sources[0]], claim.path(named_sources[0]))
        names_by_source[sources.index(named_sources[0])].append(name)
    return tuple(sorted(names_by_source[0])), tuple(sorted(names_by_source[1]))


def _images(spec: Fields) -> tuple[str, ...]:
    """Image names, each with a tag, as nodes report them."""
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
    """The requests of the whole pod, with overhead."""
    steps = [(_container(c), False, True) for c in spec.children("containers")]
    steps += [
        (_container(c), True, c.text("restartPolicy") == "Always")
        for c in spec.children("initContainers")
    ]
    total = summed(steps)
    if (whole := spec.child("resources")) is not None:
        _check_whole(whole, total)
        apply_pod_level(
            total, read_amounts(whole.child("requests")), read_amounts(whole.child("limits"))
        )
    add(total, read_amounts(spec.child("overhead")))
    return frozen(total)


def _check_whole(whole: Fields, containers: dict[str, int]) -> None:
    """Check what a pod asks for as a whole, by Kubernetes' rules."""
    requests = _of_resources(whole)
    for name, n in requests.items():
        path = whole.path(f"requests.{name}")
        if not is_pod_level(name):
            message = "not one of cpu, memory and hugepages; ask for it in a container"
            raise InvalidInput(path, None, message)
        if n < containers.get(name, 0):
            message = "less than its containers request together; raise it or lower theirs"
            raise InvalidInput(path, None, message)


def _container(container: Fields) -> dict[str, int]:
    """The requests of one container; a resource that has only a limit requests that limit."""
    container.check("Container")
    resources = container.child("resources")
    return {} if resources is None else _of_resources(resources)


def _of_resources(resources: Fields) -> dict[str, int]:
    resources.check("Resources")
    for claim in resources.children("claims", longest=100):
        claim.check("ContainerClaim")
    requests = read_amounts(resources.child("requests"))
    limits = read_amounts(resources.child("limits"))
    for name, limit in limits.items():
        if requests.setdefault(name, limit) > limit:
            path = resources.path(f"requests.{name}")
            raise InvalidInput(path, None, "more than its limit; lower it or raise the limit")
    if not ACCEPTED.get():
        _check_devices(resources.child("requests"), requests)
        _check_devices(resources.child("limits"), limits)
    if "pods" in requests:
        path = resources.path("requests.pods")
        raise InvalidInput(path, None, "every pod counts as one by itself; leave it out")
    return requests


def _check_devices(listed: Fields | None, amounts: dict[str, int]) -> None:
    """Refuse a part of an extended resource, as Kubernetes does: names with a domain of their own
    (IsExtendedResourceName)."""
    for name, n in amounts.items():
        if listed and n % unit_of(name) and "/" in name and "kubernetes.io/" not in name:
            raise listed.wrong(name, _NOT_WHOLE)


def _host_ports(spec: Fields) -> Things:
    """The host ports that the long-running containers use, each number and protocol once.

    With hostNetwork every declared port is a host port. An init container that ends has released
    its ports when the others start. For hostIP see :func:`shared.units.things.is_port`.
    """
    names: set[str] = set()
    host_network = spec.boolean("hostNetwork", False)
    for part in ("containers", "initContainers"):
        for container in spec.children(part):
            stays = part == "containers" or container.text("restartPolicy") == "Always"
            for port in container.children("ports") if stays else ():
                if name := _host_port(port, host_network):
                    names.add(name)
                    if len(names) > PORTS_OF_A_POD:
                        raise port.wrong("hostPort", TOO_MANY_PORTS)
    return tuple((name, (1,)) for name in sorted(names))


def _host_port(port: Fields, host_network: bool) -> str:
    """The name of the host port; "" if this port is not one."""
    port.check("Port")
    number = port.integer("hostPort", 0, high=65535)
    if host_network and not number:
        number = port.integer("containerPort", 0, high=65535)
    protocol = port.choice("protocol", ("TCP", "UDP", "SCTP"), "TCP")
    return port_name(protocol, number) if number else ""
