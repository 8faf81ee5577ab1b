"""Every field of Kubernetes 1.37's Pod that no request is read from, with a value of its type.

The table stands for objects that others write: whatever is in it, a pod uses of its node what its
containers request.
"""

from __future__ import annotations

from typing import Any

_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUMES: dict[str, Any] = {
    "awsElasticBlockStore": {"volumeID": "v"},
    "azureDisk": {"diskName": "d", "diskURI": "u"},
    "azureFile": {"secretName": "s", "shareName": "n"},
    "cephfs": {"monitors": ["m"]},
    "cinder": {"volumeID": "v"},
    "configMap": {"name": "c"},
    "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True},
    "downwardAPI": {"items": []},
    "emptyDir": {"sizeLimit": "1Gi"},
    "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}},
    "fc": {"targetWWNs": ["w"], "lun": 1},
    "flexVolume": {"driver": "d"},
    "flocker": {"datasetName": "d"},
    "gcePersistentDisk": {"pdName": "p"},
    "gitRepo": {"repository": "r"},
    "glusterfs": {"endpoints": "e", "path": "p"},
    "hostPath": {"path": "/"},
    "image": {"reference": "r"},
    "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0},
    "nfs": {"server": "s", "path": "/"},
    "persistentVolumeClaim": {"claimName": "c"},
    "photonPersistentDisk": {"pdID": "p"},
    "portworxVolume": {"volumeID": "v"},
    "projected": {"sources": [{"podCertificate": {"signerName": "s", "keyType": "ED25519"}}]},
    "quobyte": {"registry": "r", "volume": "v"},
    "rbd": {"monitors": ["m"], "image": "i"},
    "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "n"}},
    "secret": {"secretName": "s"},
    "storageos": {"volumeName": "v"},
    "vsphereVolume": {"volumePath": "p"},
}
_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPEC: dict[str, Any] = {
    "activeDeadlineSeconds": 5,
    "affinity": {
        "podAntiAffinity": {_REQUIRED: [_TERM | {"matchLabelKeys": ["a"]}]},
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"newOperator": {}}]}},
    },
    "automountServiceAccountToken": False,
    "dnsConfig": {"nameservers": ["1.1.1.1"]},
    "dnsPolicy": "Default",
    "enableServiceLinks": True,
    "ephemeralContainers": [{"name": "debug", "resources": {"requests": {"cpu": "3"}}}],
    "evictionInterceptors": [{"name": "i"}],
    "evictionResponders": [{"name": "example.com/saves", "priority": 10_000}],
    "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["h"]}],
    "hostIPC": True,
    "hostNetwork": True,
    "hostPID": True,
    "hostUsers": False,
    "hostname": "h",
    "hostnameOverride": "h",
    "imagePullSecrets": [{"name": "s"}],
    "nodeSelector": {"a": "b"},
    "os": {"name": "linux"},
    "preemptionPolicy": "Never",
    "priority": 2_000_001_000,
    "priorityClassName": "system-node-critical",
    "readinessGates": [{"conditionType": "c"}],
    "resourceClaims": [{"name": "a", "resourceClaimName": "b"}, {"name": "odd"}],
    "restartPolicy": "OnFailure",
    "runtimeClassName": "gvisor",
    "schedulingGates": [{"name": "g"}],
    "schedulingGroup": {"podGroupName": "g"},
    "securityContext": {"runAsUser": 1, "seLinuxChangePolicy": "Recursive"},
    "serviceAccount": "s",
    "serviceAccountName": "s",
    "setHostnameAsFQDN": True,
    "shareProcessNamespace": True,
    "subdomain": "s",
    "terminationGracePeriodSeconds": 0,
    "tolerations": [{"operator": "Lt", "key": "k", "value": "5"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "New"}
    ],
    "workloadRef": {"name": "w", "podGroup": "g"},
    "aFieldOfTomorrow": {"x": [1]},
}
CONTAINER: dict[str, Any] = {
    "args": ["a"],
    "command": ["c"],
    "env": [
        {"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}
    ],
    "envFrom": [{"configMapRef": {"name": "c"}}],
    "image": "x" * 2000,
    "imagePullPolicy": "Always",
    "lifecycle": {"stopSignal": "SIGUSR1"},
    "livenessProbe": {"grpc": {"port": 1}},
    "ports": [{"containerPort": 80, "name": "odd name"}],
    "readinessProbe": {},
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
    "securityContext": {"privileged": True},
    "startupProbe": {},
    "stdin": True,
    "stdinOnce": True,
    "terminationMessagePath": "/",
    "terminationMessagePolicy": "File",
    "tty": True,
    "volumeDevices": [{"name": "v", "devicePath": "/d"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}],
    "workingDir": "/",
    "aFieldOfTomorrow": 1,
}
STATUS: dict[str, Any] = {
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "observedGeneration": 1}],
    "containerStatuses": [{"name": "c", "ready": True, "restartCount": 1, "user": {"linux": {}}}],
    "ephemeralContainerStatuses": [{"name": "debug", "resources": {"requests": {"cpu": "3"}}}],
    "extendedResourceClaimStatus": {"resourceClaimName": "r", "requestMappings": []},
    "hostIP": "1.1.1.1",
    "hostIPs": [{"ip": "1.1.1.1"}],
    "initContainerStatuses": [{"name": "i"}],
    "message": "m",
    "nominatedNodeName": "other",
    "observedGeneration": 3,
    "podIP": "1.1.1.1",
    "podIPs": [{"ip": "1.1.1.1"}],
    "qosClass": "Burstable",
    "reason": "r",
    "resize": "Deferred",
    "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}],
    "startTime": "2026-11-24T10:00:00Z",
    "volumeHealth": [{"name": "v", "healthConditions": [{"status": "Degraded", "reason": "r"}]}],
    "aFieldOfTomorrow": {},
}
METADATA: dict[str, Any] = {
    "annotations": {"a": "b" * 3000, "quadrant.dev/duration": "odd"},
    "deletionGracePeriodSeconds": 30,
    "deletionTimestamp": "2026-11-24T11:00:00Z",
    "finalizers": ["f"],
    "generateName": "p-",
    "generation": 2,
    "labels": {"a": "b"},
    "managedFields": [{"manager": "m", "fieldsV1": {}}],
    "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}],
    "selfLink": "s",
}


def pods() -> dict[str, dict[str, Any]]:
    """A running pod of another scheduler with 6 cpu for each field, by the field's path."""
    items = {f"spec.{name}": _pod(spec={name: value}) for name, value in SPEC.items()}
    for name, value in VOLUMES.items():
        items[f"spec.volumes.{name}"] = _pod(spec={"volumes": [{"name": "v", name: value}]})
    for name, value in CONTAINER.items():
        items[f"spec.containers.{name}"] = _pod(container={name: value})
    for name, value in STATUS.items():
        items[f"status.{name}"] = _pod(status={name: value})
    for name, value in METADATA.items():
        items[f"metadata.{name}"] = _pod(metadata={name: value})
    return items


def _pod(
    *,
    spec: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    main = {"name": "c", "resources": {"requests": {"cpu": "6"}}} | (container or {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": "kube-system", "uid": "u"} | (metadata or {}),
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": "n",
            "containers": [main],
            **(spec or {}),
        },
        "status": {"phase": "Running", **(status or {})},
    }
