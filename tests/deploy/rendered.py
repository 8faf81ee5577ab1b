"""The files of the deployment as data: what kustomize renders, what compose reads, the image."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEDULING = ("kubernetes", "kai")
"""Overlays that schedule the cluster that they run in."""
OBSERVED = (*SCHEDULING, "shadow")
"""Overlays that follow the cluster that they run in."""
SIMULATED = "playground"
"""Overlay with a simulated cluster beside it."""
OVERLAYS = (SIMULATED, *OBSERVED)

Object = dict[str, Any]

MADE_BY_HAND = {
    "quadrant-ledger": {"password"},
    "quadrant-ray": {"auth_token"},
    "quadrant-tokens": {"tokens.yaml"},
}
"""Secrets that the others expect, with their keys; the playground brings its own."""

FOR_TLS = {"quadrant-tls": {"tls.crt", "tls.key", "ca.crt"}}
"""The same, of the TLS that the Kubernetes overlay includes."""

FOR_METRICS = {"quadrant-metrics": {"token"}}
"""The same, of the monitoring that the others include."""


@functools.cache
def render(overlay: str) -> tuple[Object, ...]:
    """All objects of an overlay. Skips the test where there is no kubectl."""
    kubectl = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH and none named by $KUBECTL: nothing was rendered")
    result = subprocess.run(
        [kubectl, "kustomize", str(ROOT / "k8s/overlays" / overlay)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr, f"kustomize warns: {result.stderr}"
    return tuple(yaml.safe_load_all(result.stdout))


def rights_of_ours(objects: tuple[Object, ...]) -> list[dict[str, Any]]:
    """The rules of the ClusterRoles that are bound to Quadrant itself."""
    bound = {
        binding["roleRef"]["name"]
        for binding in of_kind(objects, "ClusterRoleBinding")
        if [s["name"] for s in binding["subjects"]] == ["quadrant"]
    }
    roles = [r for r in of_kind(objects, "ClusterRole") if r["metadata"]["name"] in bound]
    return [rule for role in roles for rule in role["rules"]]


def of_kind(objects: tuple[Object, ...], kind: str) -> list[Object]:
    return [o for o in objects if o["kind"] == kind]


def namespace_of(objects: tuple[Object, ...]) -> str:
    (namespace,) = of_kind(objects, "Namespace")
    return str(namespace["metadata"]["name"])


def one(objects: tuple[Object, ...], kind: str, name: str) -> Object:
    (result,) = [o for o in of_kind(objects, kind) if o["metadata"]["name"] == name]
    return result


@dataclass(frozen=True)
class RenderedPods:
    """Pods that something makes, all alike."""

    owner: str
    labels: dict[str, str]
    spec: dict[str, Any]
    start: dict[str, str]
    """KubeRay's parameters of ``ray start``; empty for other pods."""

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def component(self) -> str:
        return self.labels["app.kubernetes.io/component"]


def pods_of(objects: tuple[Object, ...]) -> list[RenderedPods]:
    return list(_pods(objects))


def _pods(objects: tuple[Object, ...]) -> Iterator[RenderedPods]:
    for o in objects:
        owner = f"{o['kind']}/{o['metadata']['name']}"
        if o["kind"] in ("Deployment", "StatefulSet"):
            yield _from(owner, o["spec"]["template"], {})
        elif o["kind"] == "RayCluster":
            groups = [o["spec"]["headGroupSpec"], *o["spec"]["workerGroupSpecs"]]
            for group in groups:
                yield _from(owner, group["template"], group["rayStartParams"])


def _from(owner: str, template: dict[str, Any], start: dict[str, str]) -> RenderedPods:
    return RenderedPods(owner, template["metadata"]["labels"], template["spec"], start)


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Names and plain values; a value from elsewhere is the empty string."""
    return {e["name"]: e.get("value", "") for e in container.get("env", [])}


@functools.cache
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    return loaded


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str


@functools.cache
def dockerfile() -> tuple[tuple[Instruction, ...], ...]:
    """Instructions by stage; those before the first FROM are the first element."""
    stages: list[list[Instruction]] = [[]]
    lines = (ROOT / "docker/Dockerfile").read_text().splitlines()
    joined = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    for line in joined.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, text = line.strip().partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append(Instruction(name, " ".join(text.split())))
    return tuple(tuple(stage) for stage in stages)


def values_of(stage: tuple[Instruction, ...], name: str) -> list[str]:
    return [i.text for i in stage if i.name == name]
