"""A whole application's file: what has no effect here is taken, shown, and told by a warning."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import redis

from coordinator.api.write.bulk import BASE
from coordinator.intake.admission import cluster
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import a_list
from tests.coordinator.api.kubectl import Kubectl, found
from tests.coordinator.api.write.behind import behind
from tests.coordinator.intake.bench import Bench
from tests.end_to_end.one_process.harness import Running, running

pytestmark = [pytest.mark.timeout(120)]

PASSWORD = "correct-horse-battery"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
FILE = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: shop, labels: {{team: a}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: shop}}
data: {{color: blue, size: "3"}}
---
apiVersion: v1
kind: Secret
metadata: {{name: login, namespace: shop}}
type: Opaque
data: {{password: {ENCODED}}}
stringData: {{again: {PASSWORD}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: robot, namespace: shop}}
---
apiVersion: v1
kind: Service
metadata: {{name: front, namespace: shop}}
spec: {{clusterIP: None, selector: {{app: front}}, ports: [{{port: 80, targetPort: http}}]}}
---
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{allocatable: {{cpu: "8", memory: 16Gi, pods: "110"}}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, namespace: shop}}
spec:
  minAvailable: 1
  tasks:
  - name: w
    replicas: 1
    template:
      metadata: {{annotations: {{quadrant.dev/duration: "600"}}}}
      spec:
        serviceAccountName: robot
        containers: [{{name: main, image: x, resources: {{requests: {{cpu: "1"}}}}}}]
"""
POD_PACKED = b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00"
"""The head of a protocol buffer of a Pod, and nothing behind it."""
NAMES = ("namespace/shop", "configmap/settings", "secret/login", "serviceaccount/robot")


def config_map(name: str = "c", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}, **more}


def secret(**more: Any) -> dict[str, Any]:
    return config_map("s") | {"kind": "Secret", "data": {"password": ENCODED}, **more}


@pytest_asyncio.fixture
async def service(redis_url: str, short_dir: Path) -> AsyncIterator[Running]:
    async with running(redis_url, short_dir) as service:
        yield service


@pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL")
async def test_a_file_with_everything(
    service: Running, tmp_path: Path, embedded_server: EmbeddedServer
) -> None:
    kubectl = Kubectl(service.url, tmp_path)
    result = await kubectl("apply", "-f", "-", text=FILE)
    assert result.code == 0, str(result)
    lines = result.out.splitlines()
    assert lines[:4] == [f"{name} created" for name in NAMES]
    assert "Warning: data and stringData are dropped" in result.err
    assert "Warning: kept and shown, but no pod reads it" in result.err
    again = await kubectl.ok("apply", "-f", "-", text=FILE)
    unchanged = [line.partition(" ")[0] for line in again.splitlines() if "unchanged" in line]
    assert set(unchanged) >= {"configmap/settings", "serviceaccount/robot", "service/front"}
    in_shop = ("-n", "shop")
    live = json.loads(await kubectl.ok("get", "secret", "login", *in_shop, "-o", "json"))
    assert live["type"] == "Opaque" and not {"data", "stringData"} & live.keys()
    live = json.loads(await kubectl.ok("get", "cm", "settings", *in_shop, "-o", "json"))
    assert live["data"] == {"color": "blue", "size": "3"}
    assert (await kubectl.ok("get", "svc", *in_shop)).splitlines()[1].split()[:3] == [
        "front",
        "ClusterIP",
        "80/TCP",
    ]
    namespace = json.loads(await kubectl.ok("get", "ns", "shop", "-o", "json"))
    assert namespace["metadata"]["labels"]["team"] == "a"
    assert namespace["status"] == {"phase": "Active"}
    await kubectl.ok(
        "wait", "--for=jsonpath={.status.phase}=Running", "pod/train-w-0", *in_shop, "--timeout=60s"
    )
    await kubectl.ok("apply", "--server-side", "--force-conflicts", "-f", "-", text=FILE)
    with redis.Redis.from_url(embedded_server.url) as ledger:
        for key in ledger.scan_iter():
            assert PASSWORD.encode() not in ledger.dump(key)
            assert ENCODED.encode() not in ledger.dump(key)
    await kubectl.ok("delete", "-f", "-", "--timeout=60s", text=FILE)
    assert (await kubectl("get", "ns", "shop")).code == 1


@pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL")
async def test_namespaces_come_and_go(service: Running, tmp_path: Path) -> None:
    kubectl = Kubectl(service.url, tmp_path)
    assert await kubectl.ok("create", "namespace", "team-a") == "namespace/team-a created\n"
    result = await kubectl("create", "namespace", "team-a")
    assert "AlreadyExists" in result.err
    await kubectl.ok("create", "configmap", "c", "-n", "team-b", "--from-literal=a=b")
    # it exists already, because an object names it
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-b, labels: {x: z}}\n"
    assert (await kubectl("apply", "-f", "-", text=text)).code == 0
    assert "team-b" in await kubectl.ok("get", "ns", "-l", "x=z")
    result = await kubectl("delete", "namespace", "team-b", "--timeout=60s")
    assert (result.code, "objects in this namespace stay" in result.err) == (0, True), str(result)
    assert "team-b" in await kubectl.ok("get", "ns")
    await kubectl.ok("delete", "cm", "c", "-n", "team-b")
    assert "team-b" not in await kubectl.ok("get", "ns")
    await kubectl.ok("delete", "namespace", "team-a", "--timeout=60s")


@pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL")
@pytest.mark.all
async def test_kubectl_create_makes_quotas_budgets_and_classes(
    service: Running, tmp_path: Path
) -> None:
    kubectl = Kubectl(service.url, tmp_path)

    async def spec(*command: str, field: str = "spec") -> object:
        await kubectl.ok("create", *command)
        return json.loads(await kubectl.ok("get", *command[:2], "-o", "json"))[field]

    hard = {"cpu": "10", "memory": "1Gi", "pods": "5"}
    written = ",".join(f"{name}={amount}" for name, amount in hard.items())
    assert await spec("quota", "q", f"--hard={written}") == {"hard": hard}
    scoped = await spec("quota", "s", "--hard=pods=1", "--scopes=BestEffort")
    assert scoped == {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}
    budget = await spec("pdb", "count", "--selector=app=a", "--min-available=2")
    assert budget == {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}
    budget = await spec("pdb", "part", "--selector=app in (a,b)", "--max-unavailable=50%")
    among = [{"key": "app", "operator": "In", "values": ["a", "b"]}]
    assert budget == {"maxUnavailable": "50%", "selector": {"matchExpressions": among}}
    assert await spec("priorityclass", "high", "--value=1000", field="value") == 1000
    assert await spec("priorityclass", "low", "--value=-5", field="value") == -5


async def test_a_list_generates_missing_names(service: Running) -> None:
    items = [config_map(), config_map() | {"metadata": {"generateName": "made-"}}]
    body = a_list(*items, items[1])
    async with aiohttp.ClientSession(service.url) as session:
        async with session.post(f"{BASE}/lists", json=body) as answer:
            output = await answer.json()
        assert (output["accepted"], output["refused"]) == (3, [])
        assert len(set(output["generatedNames"])) == 2
        async with session.get("/api/v1/namespaces/default/configmaps") as answer:
            names = {item["metadata"]["name"] for item in (await answer.json())["items"]}
        assert names == set(output["generatedNames"])
        plan = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}
        plan |= {"spec": {"containers": [{"name": "c", "image": "x"}]}}
        async with session.post(f"{BASE}/plans", json=plan) as answer:
            assert (await answer.json()).get("refused", []) == []


async def test_a_protocol_buffer_is_no_json() -> None:
    async with behind() as client:
        packed = "application/vnd.kubernetes.protobuf"
        for method, path in (("POST", "Pod"), ("PUT", "Pod/p"), ("PATCH", "Pod/p")):
            code, answer = await client.send(method, path, POD_PACKED, type=packed)
            assert (code, answer["reason"]) == (415, "UnsupportedMediaType"), (method, answer)
            assert "application/json" in answer["message"]


async def test_an_error_in_a_secret_does_not_repeat_its_value() -> None:
    async with behind() as client:
        code, answer = await client.create(secret(stringdata=PASSWORD))
        assert (code, PASSWORD in str(answer)) == (422, False)
        assert "stringdata" in answer["message"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_secret_is_stored_without_its_data_wherever_it_stands(bench: Bench) -> None:
    applied = json.dumps(secret(stringData={"a": PASSWORD}))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    sent = secret(stringData={"a": PASSWORD})
    sent["metadata"] |= {"annotations": annotations}
    (document,) = (d for d in bench.take(sent).documents if d.key.kind == "Secret")
    assert PASSWORD.encode() not in document.body and ENCODED.encode() not in document.body
    stored = document.object()["metadata"]["annotations"]
    assert json.loads(stored.popitem()[1]).keys() == {"apiVersion", "kind", "metadata"}
    unread = {"kubectl.kubernetes.io/last-applied-configuration": PASSWORD}
    sent["metadata"] |= {"annotations": unread}
    (document,) = bench.take(sent).documents
    assert PASSWORD.encode() not in document.body


def test_a_namespace_has_only_so_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "INERT_OBJECTS", 2)
    assert bench.take(config_map("a"), config_map("a"), config_map("b")).refused == []
    (refusal,) = bench.admit(config_map("a"), config_map("c")).refused
    assert (refusal.field, refusal.name) == ("metadata.namespace", "ns/c")
    bench.remove("ConfigMap", "a")
    assert bench.take(config_map("c")).refused == []
    assert len(bench.admit(config_map("d")).refused) == 1
