"""Fields that are stored unread have at least the form that the schema announces to clients."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from shared.errors import Refusal
from shared.manifests.kubernetes.inert import InertObject
from shared.manifests.parse import parse, parse_stored
from shared.schemas.catalogue import TABLES
from tests.builders.objects import kube_object

PORT = {"port": 80, "targetPort": "http", "protocol": "TCP"}


def inert(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": {"ports": [PORT, {"port": 443, "targetPort": 8443}], "clusterIP": "None"}},
        {"spec": {"ports": None, "selector": {"app": "web"}, "sessionAffinityConfig": {"a": [1]}}},
        {"spec": {"publishNotReadyAddresses": True, "healthCheckNodePort": 1}},
        {"spec": {"notInTheSchema": 5}},
        {"spec": None, "status": {"loadBalancer": {}}},
    ],
    ids=str,
)
def test_a_field_of_the_schemas_form_is_kept(fields: dict[str, Any]) -> None:
    assert isinstance(parse(inert("Service", **fields)), InertObject)


@pytest.mark.parametrize(
    ("kind", "fields", "at", "message"),
    [
        ("Service", {"spec": 5}, "spec", "not an object"),
        ("Service", {"spec": {"ports": {}}}, "spec.ports", "not a list"),
        ("Service", {"spec": {"ports": [5]}}, "spec.ports[0]", "not an object"),
        ("Service", {"spec": {"ports": [PORT, {}]}}, "spec.ports[1].port", "missing"),
        ("Service", {"spec": {"ports": [{"port": True}]}}, "spec.ports[0].port", "whole number"),
        (
            "Service",
            {"spec": {"ports": [PORT | {"targetPort": 1.5}]}},
            "spec.ports[0].targetPort",
            "integer or string",
        ),
        (
            "Service",
            {"spec": {"ports": [PORT | {"protocol": "tcp"}]}},
            "spec.ports[0].protocol",
            "TCP, UDP, SCTP",
        ),
        (
            "Service",
            {"spec": {"publishNotReadyAddresses": "yes"}},
            "spec.publishNotReadyAddresses",
            "true",
        ),
        ("Service", {"spec": {"selector": {"a": 1}}}, "spec.selector.a", "not a text"),
        ("Secret", {"type": 5}, "type", "not a text"),
        ("ConfigMap", {"binaryData": {"a": 1}}, "binaryData.a", "not a text"),
        ("ServiceAccount", {"secrets": ["a"]}, "secrets[0]", "not an object"),
        ("Namespace", {"status": "Active"}, "status", "not an object"),
    ],
)
def test_another_form_is_refused_with_its_path(
    kind: str, fields: dict[str, Any], at: str, message: str
) -> None:
    refused = parse(inert(kind, **fields))
    assert not isinstance(refused, InertObject)
    assert f"{kind} x: {at}" in str(refused)
    assert message in str(refused)


def test_a_secrets_value_of_another_form_is_not_repeated() -> None:
    refused = parse(inert("Secret", data={"password": 12345}))
    assert "data.password" in str(refused)
    assert "12345" not in str(refused)


# --- fields of kinds that decide something --------------------------------------------------------

CONTAINER = {"name": "c"}
POD: dict[str, Any] = kube_object("v1", "Pod", "x", spec={"containers": [CONTAINER]})
CLASS: dict[str, Any] = kube_object(
    "storage.k8s.io/v1", "StorageClass", "x", provisioner="disk.example.com"
)
NODE: dict[str, Any] = kube_object("v1", "Node", "x", spec={}, status={"allocatable": {"cpu": "1"}})
PARTS: dict[str, tuple[dict[str, Any], tuple[str | int, ...]]] = {
    "StorageClass": (CLASS, ()),
    "PersistentVolumeClaimSpec": (inert("PersistentVolumeClaim", spec={}), ("spec",)),
    "NodeSpec": (NODE, ("spec",)),
    "PodSpec": (POD, ("spec",)),
    "Container": (POD, ("spec", "containers", 0)),
    "ObjectMeta": (CLASS, ("metadata",)),
}
"""Name of a schema -> an object with such a part, and where."""
KEPT = [(schema, name) for schema in PARTS for name in TABLES[schema].kept]


def with_field(schema: str, name: str, value: object) -> tuple[dict[str, Any], str]:
    """(object, path of the field)"""
    obj, way = PARTS[schema]
    obj = part = deepcopy(obj)
    path = ""
    for step in way:
        part = part[step]  # type: ignore[index]
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    part[name] = value
    return obj, f"{path}.{name}".lstrip(".")


@pytest.mark.parametrize(("schema", "name"), KEPT)
def test_a_kept_field_of_another_form_is_refused(schema: str, name: str) -> None:
    """A client with types could not decode a list that it is in."""
    form = TABLES[schema].kept[name]
    wrong: object = 5 if form.get("type") != "integer" else "five"
    obj, path = with_field(schema, name, wrong)
    assert f"x: {path}" in str(parse(obj))
    assert not isinstance(parse(with_field(schema, name, None)[0]), Refusal)


def test_many_fields_are_kept() -> None:
    """The descriptions are what says so: none may be reworded away."""
    assert len(KEPT) > 50
    assert ("StorageClass", "allowVolumeExpansion") in KEPT


def test_stored_objects_of_earlier_versions_are_still_read() -> None:
    obj, _ = with_field("PodSpec", "hostIPC", "of another version")
    assert isinstance(parse(obj), Refusal)
    assert not isinstance(parse_stored(obj), Refusal)
