"""Volcano's and KAI's own definitions of their kinds, in a cluster of the tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.definitions import install, remove
from tests.kubernetes.servers.build import KAI, VOLCANO, Module

Json = dict[str, Any]
_STORED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_GENERATED = "controller-gen.kubebuilder.io/version"
"""Annotation of definitions that a project generates from its Go types."""


async def install_volcano(client: ApiClient) -> None:
    await _install(client, VOLCANO)


async def install_kai(client: ApiClient) -> None:
    await _install(client, KAI)


def definition(module: Module, kind: str) -> Json:
    [chosen] = [crd for crd in definitions(module) if crd["spec"]["names"]["kind"] == kind]
    return chosen


def definitions(module: Module) -> tuple[Json, ...]:
    """CustomResourceDefinitions of the project."""
    return _read(module.folder)


async def _install(client: ApiClient, module: Module) -> None:
    """Replace the definitions of a test before, which may be ours under the same names."""
    stored = await client.get(_STORED, accept=_METADATA)
    generated = {
        item["metadata"]["name"]
        for item in stored["items"] or []
        if _GENERATED in item["metadata"].get("annotations", {})
    }
    missing = [crd for crd in definitions(module) if crd["metadata"]["name"] not in generated]
    if missing:
        await remove(client, *missing)
        await install(client, *missing)


@cache
def _read(folder: Path) -> tuple[Json, ...]:
    files = sorted(folder.glob("*.yaml"))
    return tuple(yaml.load(path.read_text(), yaml.CSafeLoader) for path in files)
