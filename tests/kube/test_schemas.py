"""Schemas by hand, held to what the parsers take and to what the server shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from coordinator.kube.discovery import discovery_routes
from coordinator.kube.openapi import document
from coordinator.kube.questions import FIELDS
from coordinator.kube.schemas import SCHEMAS
from coordinator.kube.schemas.notation import read
from coordinator.objects.kinds import BY_KIND, KINDS, SHARD
from shared.manifests import (
    between,
    budgets,
    constraints,
    devices,
    gangs,
    metadata,
    nodes,
    numa,
    pods,
    policies,
    queues,
    selectors,
    storage,
    topology,
)
from tests.kube.client import Client

ENVELOPE = {"apiVersion", "kind", "metadata", "spec", "status"}
TABLES = {
    "ObjectMeta": metadata._KNOWN,
    "PodSpec": pods._KNOWN,
    "Container": pods._CONTAINER,
    "Resources": pods._RESOURCES,
    "Port": pods._PORT,
    "Affinity": constraints._AFFINITY,
    "NodeAffinity": between.BOTH,
    "PodAffinity": between.BOTH,
    "NodeGroups": between.BOTH,
    "PodAffinityTerm": between._TERM,
    "TopologySpread": between._SPREAD,
    "LabelSelector": selectors._SELECTOR,
    "LabelRequirement": selectors._EXPRESSION,
    "SubGroupPolicy": topology._POLICY,
    "JobPartition": topology._PARTITION,
    "PodDisruptionBudgetSpec": budgets._SPEC,
    "ResourceQuotaSpec": budgets._QUOTA,
    "PersistentVolumeClaimSpec": storage._CLAIM,
    "StorageClass": storage._CLASS,
    "ResourceSliceSpec": devices._SLICE,
    "Device": devices._DEVICE,
    "NumatopologySpec": numa._SPEC,
    "NodeSelectorTerm": constraints._TERM,
    "Requirement": constraints._EXPRESSION,
    "Toleration": constraints._TOLERATION,
    "Taint": constraints._TAINT,
    "NodeSpec": nodes._SPEC,
    "PodGroupSpec": gangs._POD_GROUP,
    "JobSpec": gangs._JOB,
    "JobTask": gangs._TASK,
    "JobPolicy": policies._POLICY,
    "JobDependsOn": policies._DEPENDS_ON,
    "QueueSpec": queues._QUEUE,
    "PriorityClass": queues._PRIORITY_CLASS,
    "HyperNodeSpec": {"tier", "tierName", "members"},
    "HyperNodeMember": {"type", "selector"},
    "MemberSelector": {"exactMatch", "regexMatch", "labelMatch"},
    "RegexMatch": {"pattern"},
    "NetworkTopology": {"highestTierAllowed", "highestTierName", "mode"},
    "ExactMatch": {"name"},
    "Guarantee": {"resource"},
    "PodTemplate": {"metadata", "spec"},
}
"""Schema -> the fields that the parser takes."""


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_has_what_the_parser_takes_and_nothing_else(name: str) -> None:
    assert set(SCHEMAS[name]["properties"]) == set(TABLES[name])


def test_no_table_of_a_parser_is_left_out() -> None:
    """Every set of names in these modules is held above, or says what is refused."""
    held = {frozenset(table) for table in TABLES.values()}
    held |= {devices._ASK}  # what is below spec.devices of a claim is shown as one
    for module in (
        between,
        budgets,
        constraints,
        devices,
        gangs,
        nodes,
        numa,
        pods,
        policies,
        queues,
        selectors,
        storage,
        topology,
    ):
        for name, value in vars(module).items():
            if not isinstance(value, frozenset) or "LATER" in name:
                continue
            parts = name in ("_HANDLED", "_HARMLESS", "_VOLUMES")  # of _KNOWN; kinds of volumes
            assert parts or value in held, f"{module.__name__}.{name}"


def test_every_kind_has_a_schema_and_fields_to_select_by() -> None:
    for kind in KINDS:
        assert set(SCHEMAS[kind.kind]["properties"]) >= ENVELOPE - {"spec", "status"}
        assert "metadata.name" in FIELDS[kind.kind]
    assert set(FIELDS) == set(BY_KIND)


def test_every_field_is_described() -> None:
    for name, schema in SCHEMAS.items():
        for field, value in schema["properties"].items():
            assert re.search(r"[.!?]$", value["description"]), f"{name}.{field}"
    with pytest.raises(ValueError, match=r"X\.a has no description"):
        read("X - It.\n  a: string\n")
    with pytest.raises(ValueError, match="in no form"):
        read("X - It.\n  a string\n")


@pytest.mark.parametrize("version", sorted({kind.api_version for kind in KINDS}))
def test_a_document_names_only_what_it_has(version: str) -> None:
    kinds = tuple(kind for kind in KINDS if kind.api_version == version)
    made = document(version, kinds)
    there = set(made["components"]["schemas"])
    named = set(re.findall(r"'#/components/schemas/(\w+)'", str(made)))
    assert named <= there
    assert there <= named | {kind.kind for kind in kinds} | {f"{k.kind}List" for k in kinds} | {
        "DeleteOptions"
    }
    names = [
        operation["operationId"]
        for path in made["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
    ]
    assert len(names) == len(set(names))


def test_kubectl_finds_out_that_apply_is_checked_here() -> None:
    """It looks for ``fieldValidation`` in the PATCH operation of the kind."""
    for kind in KINDS:
        paths = document(kind.api_version, (kind,))["paths"]
        patches = [path["patch"] for path in paths.values() if "patch" in path]
        assert len(patches) == ("patch" in kind.verbs)
        for patch in patches:
            assert "fieldValidation" in {p["name"] for p in patch["parameters"]}
            assert patch["x-kubernetes-group-version-kind"]["kind"] == kind.kind
            assert "application/apply-patch+yaml" in patch["requestBody"]["content"]


async def test_what_is_shown_is_described(client: Client) -> None:
    for kind in KINDS:
        root = "apis" if kind.group else "api"
        shown = (await client.get(f"/{root}/{kind.api_version}/{kind.plural}"))["items"]
        assert shown, kind
        for value in shown:
            assert sorted(unknown(value, SCHEMAS[kind.kind], kind.kind)) == []


def unknown(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    """Paths in a value that its schema does not have, or has otherwise."""
    if "allOf" in schema:
        (schema,) = schema["allOf"]
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    match value, schema:
        case dict(), {"properties": properties}:
            found = [f"{at}.{name}" for name in value.keys() - properties.keys()]
            for name in value.keys() & properties.keys():
                found += unknown(value[name], properties[name], f"{at}.{name}")
            return found
        case list(), {"items": items}:
            return [path for part in value for path in unknown(part, items, f"{at}[]")]
        case str(), {"enum": options}:
            return [] if value in options else [f"{at}: {value}"]
        case _, {"type": kind}:
            types: dict[str, type | tuple[type, ...]] = {
                "string": str, "integer": int, "number": (int, float), "boolean": bool,
                "object": dict, "array": list,
            }  # fmt: skip
            empty = value is None and schema.get("nullable", False)
            return (
                [] if empty or isinstance(value, types[kind]) else [f"{at}: {type(value).__name__}"]
            )
        case _:
            return []


def test_discovery_says_it_once() -> None:
    paths = [route.path for route in discovery_routes()]
    assert len(paths) == len(set(paths))
    assert f"/apis/{SHARD.api_version}" in paths
