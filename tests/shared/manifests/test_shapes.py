"""What is kept and not looked at has at least the form that the schema tells to clients."""

from __future__ import annotations

from typing import Any

import pytest

from shared.manifests.kubernetes.inert import InertObject
from shared.manifests.parse import parse

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
def test_what_has_the_form_is_kept(fields: dict[str, Any]) -> None:
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
