"""Dynamic resource allocation (``resource.k8s.io/v1``): claims, classes and slices of devices.

CEL expressions are kept as text; their errors are reported when they are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.errors import InvalidInput
from shared.manifests.fields.metadata import read_metadata
from shared.manifests.fields.reader import Fields, part_of, subdomain
from shared.manifests.kubernetes.constraints import (
    read_node_selector,
    read_taints,
    read_tolerations,
)
from shared.model.constraints import Terms
from shared.model.devices import (
    Allocation,
    Attribute,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceMatch,
    DeviceRequest,
    DeviceResult,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from shared.units.quantity import amount

Requests = tuple[tuple[DeviceRequest, ...], tuple[DeviceMatch, ...]]

_LONGEST_EXPRESSION = 10 << 10
"""As in Kubernetes (CELSelectorExpressionMaxLength), and in the parser of expressions."""
_VALUES = ("bool", "int", "string", "version")


# --- claims -----------------------------------------------------------------------------------


def read_claim(obj: dict[str, object]) -> ResourceClaim:
    meta = read_metadata(obj, namespaced=True)
    requests, matches = _requests(Fields(obj.get("spec"), "spec"))
    status = part_of(obj, "status")
    users = (user.text("uid") for user in status.children("reservedFor"))
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        requests=requests,
        matches=matches,
        allocation=_allocation(status.child("allocation")),
        reserved=tuple(uid for uid in users if uid),
    )


def read_claim_template(obj: dict[str, object]) -> ResourceClaimTemplate:
    meta = read_metadata(obj, namespaced=True)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("ResourceClaimTemplateSpec")
    return ResourceClaimTemplate(meta.namespace, meta.name, *_requests(spec.need("spec")))


def _requests(spec: Fields) -> Requests:
    spec.check("ResourceClaimSpec")
    devices = spec.child("devices") or Fields({}, spec.path("devices"))
    devices.check("DeviceClaim")
    _check_config(devices)
    requests = tuple(_request(r) for r in devices.children("requests", longest=32))
    if len({r.name for r in requests}) != len(requests):
        raise devices.wrong("requests", "two of them have the same name; give each its own")
    return requests, tuple(_match(c) for c in devices.children("constraints", longest=32))


def _request(fields: Fields) -> DeviceRequest:
    """Read a request: ``exactly`` one description, or a list of which the first available is
    used."""
    fields.check("DeviceRequest")
    name = _name(fields)
    exactly = fields.child("exactly")
    listed = list(fields.children("firstAvailable", longest=8))
    for ask in listed:
        ask.check("DeviceSubRequest")
    alternatives = tuple(_ask(ask, _name(ask)) for ask in listed)
    if (exactly is None) is (not alternatives):
        message = "wants one of exactly and firstAvailable; write one of them"
        raise InvalidInput(fields.at, fields.data, message)
    if exactly is None:
        return DeviceRequest(name, alternatives)
    exactly.check("ExactDeviceRequest")
    return DeviceRequest(name, (_ask(exactly),))


def _ask(fields: Fields, name: str = "") -> DeviceAsk:
    mode = fields.choice("allocationMode", ("ExactCount", "All"), "ExactCount")
    capacity = fields.child("capacity")
    if capacity is not None:
        capacity.check("CapacityRequirements")
        capacity = capacity.child("requests")
    return DeviceAsk(
        device_class=subdomain(fields.data.get("deviceClassName"), fields.path("deviceClassName")),
        name=name,
        selectors=_selectors(fields),
        count=fields.integer("count", 1, low=1),
        everything=mode == "All",
        admin=fields.boolean("adminAccess", False),
        tolerations=read_tolerations(fields),
        capacity=_quantities(capacity),
    )


def _match(fields: Fields) -> DeviceMatch:
    fields.check("DeviceConstraint")
    same, distinct = fields.text("matchAttribute"), fields.text("distinctAttribute")
    if bool(same) is bool(distinct):
        message = "wants one of matchAttribute and distinctAttribute; write one of them"
        raise InvalidInput(fields.at, fields.data, message)
    return DeviceMatch(same or distinct, fields.texts("requests", longest=32), bool(distinct))


def _allocation(fields: Fields | None) -> Allocation | None:
    if fields is None:
        return None
    devices = fields.child("devices") or Fields({}, fields.path("devices"))
    selector = fields.child("nodeSelector")
    return Allocation(
        results=tuple(_result(r) for r in devices.children("results")),
        nodes=None if selector is None else read_node_selector(selector),
    )


def _result(fields: Fields) -> DeviceResult:
    return DeviceResult(
        request=fields.text("request"),
        driver=fields.text("driver"),
        pool=fields.text("pool"),
        device=fields.text("device"),
        admin=fields.boolean("adminAccess", False),
        capacity=_quantities(fields.child("consumedCapacity")),
    )


# --- classes and slices -----------------------------------------------------------------------


def read_device_class(obj: dict[str, object]) -> DeviceClass:
    meta = read_metadata(obj, namespaced=False)
    spec = part_of(obj, "spec", "DeviceClassSpec")
    _check_config(spec)
    return DeviceClass(meta.name, _selectors(spec), spec.text("extendedResourceName"))


def read_slice(obj: dict[str, object]) -> ResourceSlice:
    meta = read_metadata(obj, namespaced=False)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("ResourceSliceSpec")
    pool, nodes = spec.need("pool"), spec.child("nodeSelector")
    driver = subdomain(spec.data.get("driver"), "spec.driver")
    node, everywhere = spec.text("nodeName"), spec.boolean("allNodes", False)
    if bool(node) + (nodes is not None) + everywhere != 1:
        message = "wants exactly one of nodeName, nodeSelector and allNodes; write one of them"
        raise InvalidInput("spec", None, message)
    return ResourceSlice(
        name=meta.name,
        driver=driver,
        pool=pool.text("name"),
        generation=pool.integer("generation", 0),
        slices=pool.integer("resourceSliceCount", 1, low=1),
        node=node,
        all_nodes=everywhere,
        selector=_node_selector(nodes),
        devices=tuple(_device(d, driver) for d in spec.children("devices", longest=128)),
    )


def _node_selector(fields: Fields | None) -> Terms | None:
    return None if fields is None else read_node_selector(fields)


def _device(fields: Fields, driver: str) -> Device:
    fields.check("Device")
    attributes = fields.child("attributes") or Fields({}, fields.path("attributes"))
    capacity = fields.child("capacity")
    values = {} if capacity is None else {name: capacity.need(name) for name in capacity.data}
    return Device(
        name=_name(fields),
        attributes=tuple(
            _attribute(name, attributes.need(name)) for name in _names(attributes.data, driver)
        ),
        capacity=tuple(
            (name, _quantity(values[name].data.get("value"), values[name].path("value")))
            for name in _names(values, driver)
        ),
        taints=read_taints(fields),
        shared=fields.boolean("allowMultipleAllocations", False),
    )


def _names(named: Iterable[str], driver: str) -> list[str]:
    """The names of attributes or capacities. One without a domain means the driver's domain; where
    a device has it under both names, the one with the domain counts."""
    names = set(named)
    return sorted(name for name in names if f"{driver}/{name}" not in names)


def _attribute(name: str, fields: Fields) -> Attribute:
    fields.check("DeviceAttribute")
    kinds = [kind for kind in _VALUES if fields.data.get(kind) is not None]
    if len(kinds) != 1:
        message = f"wants exactly one of {', '.join(_VALUES)}; write one of them"
        raise InvalidInput(fields.at, fields.data, message)
    match kinds[0]:
        case "bool":
            return Attribute(name, "bool", fields.boolean("bool", False))
        case "int":
            return Attribute(name, "int", fields.integer("int", 0, low=-(2**63), high=2**63 - 1))
        case kind:
            return Attribute(name, kind, fields.text(kind, longest=64))


# --- pieces -----------------------------------------------------------------------------------


def _name(fields: Fields) -> str:
    name = fields.text("name", longest=63)
    if not name:
        raise fields.wrong("name", "missing; it is required")
    return name


def _check_config(fields: Fields) -> None:
    """Its items are kept as they are; only that they are objects is checked, as for all that is
    kept."""
    for _ in fields.children("config"):
        pass


def _selectors(fields: Fields) -> tuple[str, ...]:
    expressions = []
    for selector in fields.children("selectors", longest=32):
        selector.check("DeviceSelector")
        cel = selector.need("cel")
        cel.check("CELDeviceSelector")
        expression = cel.text("expression", longest=_LONGEST_EXPRESSION)
        if not expression:
            raise cel.wrong("expression", "missing; write one that is true for the devices meant")
        expressions.append(expression)
    return tuple(expressions)


def _quantities(fields: Fields | None) -> tuple[tuple[str, int], ...]:
    if fields is None:
        return ()
    names = sorted(fields.data)
    return tuple((name, _quantity(fields.data[name], fields.path(name))) for name in names)


def _quantity(value: object, field: str) -> int:
    """A quantity in thousandths."""
    return amount("device", value, field)
