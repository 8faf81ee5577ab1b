"""Every manifest is sent to a real API server with server-side dry run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from coordinator.api.discovery.definitions import manifest
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install, remove
from tests.coordinator.api.kubectl import SECONDS, found
from tests.deploy.rendered import OVERLAYS, ROOT, Object, of_kind, pods_of, render

DEFINITIONS = ROOT / "k8s/definitions.yaml"
DRY: dict[str, Any] = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "tests"}
OPERATORS = {
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "ServiceMonitor": ("monitoring.coreos.com", "v1", "servicemonitors"),
    "PrometheusRule": ("monitoring.coreos.com", "v1", "prometheusrules"),
}
"""Kinds of operators that are not here: their definitions take every field."""


def anything(kind: str) -> Object:
    """A definition that takes every field."""
    group, version, plural = OPERATORS[kind]
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    versions = [
        {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


@pytest_asyncio.fixture
async def operators(cluster: ApiClient) -> ApiClient:
    await install(cluster, *map(anything, OPERATORS))
    return cluster


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_the_api_server_takes_every_object_of_an_overlay(
    operators: ApiClient, overlay: str
) -> None:
    objects = render(overlay)
    for namespace in of_kind(objects, "Namespace"):
        await operators.create(namespace)  # for good: the others stand in it
    for item in objects:
        if item["kind"] != "Namespace":
            resource = await operators.resource(item["apiVersion"], item["kind"])
            path = resource.path(item["metadata"].get("namespace", ""))
            await operators.post(path, item, **DRY)


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_the_namespace_admits_every_pod_of_an_overlay(
    operators: ApiClient, overlay: str
) -> None:
    """Its pod security is enforced when a pod is created, not when its template is."""
    objects = render(overlay)
    (namespace,) = await operators.create(*of_kind(objects, "Namespace"))
    classes = of_kind(objects, "PriorityClass")
    await operators.create(*classes)
    path = f"/api/v1/namespaces/{namespace['metadata']['name']}/pods"
    for pods in pods_of(objects):
        # What the API server fills in from the controllers' templates: volumes of claims.
        claims = [v["name"] for v in pods.spec["volumes"]]
        mounted = {m["name"] for c in pods.containers for m in c["volumeMounts"]} - set(claims)
        volumes = [{"name": name, "emptyDir": {}} for name in sorted(mounted)]
        spec = pods.spec | {"volumes": [*pods.spec["volumes"], *volumes]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        await operators.post(path, pod, **DRY)
        spec["securityContext"] = spec["securityContext"] | {"runAsNonRoot": False}
        assert "restricted" in (await operators.post(path, pod, code=403, **DRY))["message"]


async def test_a_field_that_kubernetes_does_not_have_is_refused(operators: ApiClient) -> None:
    (budget, *_) = of_kind(render("playground"), "PodDisruptionBudget")
    wrong = budget | {"spec": budget["spec"] | {"minAvailible": 1}}
    await operators.create(*of_kind(render("playground"), "Namespace"))
    resource = await operators.resource(budget["apiVersion"], budget["kind"])
    answer = await operators.post(resource.path("quadrant"), wrong, code=400, **DRY)
    assert "minAvailible" in answer["message"]


# --- definitions ------------------------------------------------------------------------------


def test_the_installed_definitions_are_as_the_schemas_are() -> None:
    assert DEFINITIONS.read_text() == manifest(), "run: make reference"


async def test_our_definitions_are_created_and_never_over_those_that_are_there(
    cluster: ApiClient, control_plane: ControlPlane, tmp_path: Path
) -> None:
    await remove(cluster, *VOLCANO)
    theirs = dict(VOLCANO[0], metadata=VOLCANO[0]["metadata"] | {"labels": {"app": "volcano"}})
    await install(cluster, theirs)
    code, text = await kubectl_create(control_plane, tmp_path)
    assert code == 1
    assert text.count("AlreadyExists") == 1, text
    resource = await cluster.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for name in (d["metadata"]["name"] for d in yaml.safe_load_all(DEFINITIONS.read_text())):
        stored = await cluster.get(resource.path(name=name))
        label = stored["metadata"].get("labels", {}).get("app")
        assert label == ("volcano" if name == theirs["metadata"]["name"] else None)
    await remove(cluster, *VOLCANO)
    assert (await kubectl_create(control_plane, tmp_path))[0] == 0


async def kubectl_create(control_plane: ControlPlane, home: Path) -> tuple[int, str]:
    program = found() or pytest.skip("no kubectl in PATH or $KUBECTL")
    process = await asyncio.create_subprocess_exec(
        program,
        "create",
        f"--filename={DEFINITIONS}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(control_plane.admin.kubeconfig),
        },
    )
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()
