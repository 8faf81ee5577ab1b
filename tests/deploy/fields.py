"""Fields of the kinds that our objects use: a misspelt one is noticed without an
API server. Tables of Kubernetes' API 1.29 and later, shortened to what a review let in."""

from __future__ import annotations

from typing import Any

API_VERSIONS = {
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "RayCluster": "ray.io/v1",
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "StatefulSet": "apps/v1",
}

SPECS = {
    "Deployment": "replicas selector strategy template",
    "NetworkPolicy": "podSelector policyTypes ingress egress",
    "PersistentVolumeClaim": "accessModes resources storageClassName",
    "PodDisruptionBudget": "minAvailable selector unhealthyPodEvictionPolicy",
    "PrometheusRule": "groups",
    "RayCluster": "rayVersion authOptions headGroupSpec workerGroupSpecs",
    "Service": "clusterIP ports selector",
    "ServiceMonitor": "endpoints selector",
    "StatefulSet": "replicas selector serviceName template volumeClaimTemplates",
}

POD = (
    "automountServiceAccountToken containers enableServiceLinks initContainers securityContext "
    "serviceAccountName shareProcessNamespace terminationGracePeriodSeconds "
    "topologySpreadConstraints volumes"
)
CONTAINER = (
    "command env image livenessProbe name ports readinessProbe resources restartPolicy "
    "securityContext startupProbe volumeMounts"
)
PROBE = "exec failureThreshold httpGet initialDelaySeconds periodSeconds tcpSocket timeoutSeconds"
VOLUME = "configMap emptyDir name persistentVolumeClaim projected secret"
MOUNT = "mountPath name readOnly"
GROUP = "groupName maxReplicas minReplicas rayStartParams replicas template"


def only(value: dict[str, Any], names: str, where: str) -> None:
    unknown = value.keys() - set(names.split())
    assert not unknown, f"{where}: {sorted(unknown)} is no known field"


def check_object(o: dict[str, Any]) -> None:
    kind, name = o["kind"], o["metadata"]["name"]
    assert o["apiVersion"] == API_VERSIONS.get(kind), f"{kind} of {o['apiVersion']}"
    if kind in SPECS:
        only(o["spec"], SPECS[kind], f"{kind}/{name}")
    if kind == "RayCluster":
        for group in [o["spec"]["headGroupSpec"], *o["spec"]["workerGroupSpecs"]]:
            only(group, GROUP, f"{kind}/{name}")


def check_pod(spec: dict[str, Any], where: str) -> None:
    only(spec, POD, where)
    for volume in spec["volumes"]:
        only(volume, VOLUME, f"{where}, volume {volume['name']}")
        assert len(volume) == 2, f"{where}, volume {volume['name']}: one source"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        place = f"{where}, container {container['name']}"
        only(container, CONTAINER, place)
        for mount in container["volumeMounts"]:
            only(mount, MOUNT, place)
        for probe in probes_of(container):
            only(probe, PROBE, place)
            assert len(probe.keys() & {"exec", "httpGet", "tcpSocket"}) == 1, place


def probes_of(container: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("startupProbe", "livenessProbe", "readinessProbe")
    return [container[name] for name in names if name in container]
