"""Objects of a cluster that has KAI, and what Quadrant and the binder make of them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from coordinator.cluster.kubernetes.bind_requests.writes import RequestWrites
from laboratory.local_kubernetes.client import ApiClient
from tests.builders.objects import kai_group, kai_queue, kube_object
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
REQUESTS = "/apis/scheduling.run.ai/v1alpha2/namespaces/default/bindrequests"
GROUP = "runai-gpu-group"
RECEIVED = "received-resource-type"
SCHEDULER = "kai-scheduler"
QUEUES = (kai_queue("all"), kai_queue("team", "all"))


def beside_binder(
    ledger: str,
    path: Path,
    cluster: ApiClient,
    kubeconfig: Path,
    *,
    binder: str = "kai",
    options: str = "",
    **settings: Any,
) -> AbstractAsyncContextManager[Followed]:
    """Quadrant under the name of KAI's scheduler, to be entered."""
    path.mkdir(parents=True, exist_ok=True)
    policy = path / "policy.yaml"
    policy.write_text(f"dialect: kai\n{options}")
    return followed(ledger, path, cluster, kubeconfig, policy=policy, binder=binder, **settings)


def kai_pod(name: str, *, group: str = "", cpu: int = 1, **annotations: str) -> Json:
    """Annotations by KAI's names, with _ for -. A share of a GPU has the ConfigMap that KAI's
    webhook names."""
    notes = {key.replace("_", "-"): text for key, text in annotations.items()}
    if any(key.startswith("gpu-") for key in notes):
        notes["runai/shared-gpu-configmap"] = f"{name}-shared-gpu"
    if group:
        notes["pod-group-name"] = group
    labels = {"kai.scheduler/queue": "team"}
    return pod(name, cpu=cpu, scheduler=SCHEDULER, labels=labels, annotations=notes)


def gang(name: str, minimum: int) -> Json:
    group_item = kai_group(name, "team", minMember=minimum)
    return group_item | {"metadata": {"name": name, "namespace": "default"}}


def gpu_node(name: str, gpus: int, *, cpu: int = 8) -> Json:
    node_item = node(name, cpu=cpu, labels={"nvidia.com/gpu.memory": "16000"})
    for part in ("allocatable", "capacity"):
        node_item["status"][part] = node_item["status"][part] | {"nvidia.com/gpu": str(gpus)}
    return node_item


async def refuse_bindings_to(cluster: ApiClient, node_name: str) -> None:
    """Have the API server refuse every binding to the node, by a policy of the cluster."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = "refuses-bindings"
    await cluster.create(
        kube_object(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            policy,
            spec={
                "matchConstraints": {"resourceRules": [rule | {"resources": ["pods/binding"]}]},
                "validations": [{"expression": f"object.target.name != '{node_name}'"}],
            },
        ),
        kube_object(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
            policy,
            spec={"policyName": policy, "validationActions": ["Deny"]},
        ),
    )
    (probe,) = await cluster.create(pod("probe", scheduler="nobody"))

    async def refused() -> bool:
        answer = await cluster.bind(probe, node_name, code=None, dryRun="All")
        return bool(answer.get("reason") == "Invalid")

    await until(refused)
    await cluster.delete(f"{PODS}/probe", gracePeriodSeconds="0")


async def requests(cluster: ApiClient) -> dict[str, Json]:
    """Pod -> its BindRequest."""
    items = (await cluster.get(REQUESTS))["items"]
    return {item["metadata"]["name"]: item for item in items}


def phase(request: Json) -> str:
    return str((request.get("status") or {}).get("phase", "Pending"))


def binder_of(quadrant: Followed) -> RequestWrites:
    assert quadrant.observed.binder is not None
    return quadrant.observed.binder
