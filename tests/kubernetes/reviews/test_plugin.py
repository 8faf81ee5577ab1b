"""``kubectl quadrant`` finds its service through the API server: a kubeconfig is enough."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from laboratory.local_kubernetes.authority import Authority
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import remove
from tests.builders import objects
from tests.coordinator.api.kubectl import found
from tests.kubernetes.access import account, grant, token_of, user
from tests.kubernetes.definitions import definition, install_volcano
from tests.kubernetes.driver.harness import followed, node, pod, until
from tests.kubernetes.servers.build import VOLCANO

pytestmark = pytest.mark.timeout(240)

COMMANDS = Path(sys.executable).parent
LISTS_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
EXPLAINS = {
    "apiGroups": [""],
    "resources": ["pods/explain"],
    "verbs": ["get"],
}
PROXIES = {
    "apiGroups": [""],
    "resources": ["services/proxy"],
    "resourceNames": ["https:quadrant:https"],
    "verbs": ["get", "create"],
}
MAKES_TOKENS = {
    "apiGroups": [""],
    "resources": ["serviceaccounts/token"],
    "resourceNames": ["quadrant-client"],
    "verbs": ["create"],
}


@dataclass
class Plugin:
    cluster: ApiClient
    plane: ControlPlane
    home: Path
    url: str
    """Quadrant's own address."""
    ca: Path

    async def __call__(
        self,
        *words: str,
        kubeconfig: Path,
        program: Path = COMMANDS / "kubectl-quadrant",
        **environment: str,
    ) -> tuple[int, str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("QUADRANT_")}
        clean["PATH"] = f"{COMMANDS}{os.pathsep}{clean['PATH']}"
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            env=clean | {"KUBECONFIG": str(kubeconfig), "HOME": str(self.home)} | environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def someone(self, name: str, *rules: dict[str, Any]) -> Path:
        """The kubeconfig of a user with a certificate, who may do this."""
        await grant(self.cluster, user(name), list(rules))
        return self.plane.user(name).kubeconfig


@pytest.fixture
async def plugin(
    redis_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> AsyncIterator[Plugin]:
    address = own_address()
    authority = Authority(short_dir, "ours")
    certificate, key = authority.issue("quadrant", address=address)
    await cluster.create(node("n1"), pod("a"))
    async with followed(
        redis_url,
        short_dir,
        cluster,
        control_plane.admin.kubeconfig,
        access_reviews=True,
        listen_host=address,
        tls_cert_file=certificate,
        tls_key_file=key,
    ) as quadrant:
        await quadrant.until_bound("a")
        port = int(quadrant.service.url.rpartition(":")[2])
        await publish(cluster, address, port)
        await token_of(cluster, NAMESPACE, "quadrant-client")
        url = f"https://{address}:{port}"
        yield Plugin(cluster, control_plane, short_dir, url, authority.certificate)


async def test_a_user_with_a_certificate_is_explained_a_pod(plugin: Plugin) -> None:
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), [EXPLAINS])
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    code, out, err = await plugin("explain", "pod", "a", "-n", "default", kubeconfig=kubeconfig)
    assert code == 0, err
    assert "n1" in out


async def test_kubectl_finds_the_plugin_and_sends_its_tokens_over_tls(plugin: Plugin) -> None:
    program = found() or pytest.skip("no kubectl in PATH or $KUBECTL")
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), [EXPLAINS, LISTS_PODS])
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    words = ("quadrant", "explain", "pod", "a", "-n", "default")
    code, out, err = await plugin(*words, kubeconfig=kubeconfig, program=Path(program))
    assert code == 0, err
    assert "n1" in out
    token = await token_of(plugin.cluster, NAMESPACE, "quadrant-client", audience="quadrant")
    server = f"--server={plugin.url}"
    trust = f"--certificate-authority={plugin.ca}"
    code, out, err = await plugin(
        *("get", "pods", server, trust, f"--token={token}"),
        kubeconfig=Path(os.devnull),
        program=Path(program),
    )
    assert code == 0, err
    assert "a" in out.split()


async def test_queues_and_plans_go_the_same_way(plugin: Plugin) -> None:
    await grant(
        plugin.cluster,
        account(NAMESPACE, "quadrant-client"),
        [
            {"nonResourceURLs": ["/api*", "/metrics"], "verbs": ["get"]},
            {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["list"]},
            {"apiGroups": ["quadrant.dev"], "resources": ["plans"], "verbs": ["create"]},
        ],
    )
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    code, out, err = await plugin("queue", "list", kubeconfig=kubeconfig)
    assert code == 0, err
    assert "default" in out
    planned = plugin.home / "pod.json"
    planned.write_text(json.dumps(pod("b")))
    code, out, err = await plugin("plan", "-f", str(planned), kubeconfig=kubeconfig)
    assert code == 0, err
    assert "n1" in out


async def test_the_plugin_prints_the_refusal_of_quadrant(plugin: Plugin) -> None:
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    code, _, err = await plugin("explain", "pod", "a", kubeconfig=kubeconfig)
    assert code == 1
    who = "system:serviceaccount:quadrant:quadrant-client"
    assert f'User "{who}" cannot get resource "pods/explain"' in err, err


async def test_a_token_of_ones_own_is_shown_to_quadrant_and_not_to_the_api_server(
    plugin: Plugin,
) -> None:
    token = await token_of(plugin.cluster, "default", "own", audience="quadrant")
    await grant(plugin.cluster, account("default", "own"), [EXPLAINS])
    kubeconfig = await plugin.someone("ada", PROXIES)  # no right to make tokens
    words = ("explain", "pod", "a")
    code, out, err = await plugin(*words, kubeconfig=kubeconfig, QUADRANT_TOKEN=token)
    assert code == 0, err
    assert "n1" in out
    # Nor the other way round: who has a token for the API server shows Quadrant none of it.
    reader = await token_of(plugin.cluster, "default", "reader")
    await grant(plugin.cluster, account("default", "reader"), [PROXIES, MAKES_TOKENS])
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), [EXPLAINS])
    kubeconfig = plugin.plane.bearer("reader", reader).kubeconfig
    code, out, err = await plugin(*words, kubeconfig=kubeconfig)
    assert code == 0, err


async def test_each_step_that_fails_says_what_to_do(plugin: Plugin) -> None:
    words = ("explain", "pod", "a")

    async def error_output(kubeconfig: Path, *options: str) -> str:
        code, _, err = await plugin(*words, *options, kubeconfig=kubeconfig)
        assert code == 1, err
        return err

    err = await error_output(await plugin.someone("nobody"))
    assert "serviceaccounts/token" in err
    assert "Role quadrant-client" in err
    assert "is a Kubernetes API server" not in err, "that is how it is meant"
    err = await error_output(await plugin.someone("maker", MAKES_TOKENS))
    assert "services/proxy, resourceNames [https:quadrant:https]" in err
    admin = plugin.plane.admin.kubeconfig
    assert "--service-account" in await error_output(admin, "--service-account", "quadrant/none")
    err = await error_output(admin, "--service", "quadrant/none")
    assert "service quadrant/none" in err
    assert "is missing" in err
    assert "--service NAMESPACE/NAME" in err
    assert "NAMESPACE/NAME" in await error_output(admin, "--service", "quadrant")
    err = await error_output(admin, "--service", "quadrant/quadrant:web")
    assert "no pod that is ready behind a port web" in err


async def test_a_service_that_does_not_speak_tls_or_is_away(plugin: Plugin) -> None:
    admin = plugin.plane.admin.kubeconfig
    plain = await asyncio.start_server(_hang_up, own_address(), 0)
    async with plain:
        port = plain.sockets[0].getsockname()[1]
        await plugin.cluster.delete(SLICE)
        await endpoints(plugin.cluster, own_address(), port)
        code, _, err = await plugin("explain", "pod", "a", kubeconfig=admin)
    assert code == 1
    assert "does not answer the API server" in err
    assert "QUADRANT_TLS_CERT_FILE" in err
    code, _, err = await plugin("explain", "pod", "a", kubeconfig=admin)
    assert code == 1
    assert "connection refused" in err
    assert "NetworkPolicy" in err


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the first bytes of TLS as a listener of plain HTTP does."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    writer.close()


QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
READS_QUEUES = [
    {"nonResourceURLs": ["/api*", "/metrics"], "verbs": ["get"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get", "list"]},
]
CLOSES_QUEUES = [
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues/status"], "verbs": ["patch"]},
]
VOLCANOS_COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


async def state_of(plugin: Plugin, name: str) -> str:
    queue = await plugin.cluster.get(f"{QUEUES}/{name}")
    return str((queue.get("status") or {}).get("state", ""))


@pytest.fixture
async def red(cluster: ApiClient) -> None:
    """Before Quadrant begins to look. No Commands are defined."""
    await install_volcano(cluster)
    await remove(cluster, definition(VOLCANO, "Command"))
    await cluster.create(objects.queue("red", weight=1))


async def test_a_queue_is_closed_on_the_api_server_by_the_rights_of_the_user(
    red: None, plugin: Plugin
) -> None:
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), READS_QUEUES)
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    code, _, err = await plugin("queue", "close", "red", kubeconfig=kubeconfig)
    assert code == 1
    assert 'User "ada" cannot' in err and "queues" in err, err
    assert await state_of(plugin, "red") == ""
    kubeconfig = await plugin.someone("eve", PROXIES, MAKES_TOKENS, *CLOSES_QUEUES)
    code, out, err = await plugin("queue", "close", "red", kubeconfig=kubeconfig)
    assert (code, out) == (0, "queue.scheduling.volcano.sh/red closed\n"), err
    assert await state_of(plugin, "red") == "Closed"
    for dry_run in ("server", "client"):
        words = ("queue", "open", "red", f"--dry-run={dry_run}")
        code, out, err = await plugin(*words, kubeconfig=kubeconfig)
        assert code == 0 and "dry run" in out, err
    assert await state_of(plugin, "red") == "Closed"

    async def is_told() -> bool:
        code, out, err = await plugin("queue", "list", kubeconfig=kubeconfig)
        assert code == 0, err
        return "Closed" in out

    await until(is_told)
    code, _, err = await plugin("queue", "close", "none", kubeconfig=kubeconfig)
    assert code == 1 and '"none" not found' in err, err


async def test_beside_volcanos_controllers_a_queue_is_closed_by_a_command(
    red: None, plugin: Plugin
) -> None:
    await install_volcano(plugin.cluster)
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), READS_QUEUES)
    commands = {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS, CLOSES_QUEUES[0], commands)
    code, _, err = await plugin("queue", "close", "red", kubeconfig=kubeconfig)
    assert code == 0, err
    (command,) = (await plugin.cluster.get(VOLCANOS_COMMANDS))["items"]
    queue = await plugin.cluster.get(f"{QUEUES}/red")
    assert command["action"] == "CloseQueue"
    assert command["target"]["uid"] == queue["metadata"]["uid"]
    assert command["metadata"]["ownerReferences"][0]["name"] == "red"
    assert await state_of(plugin, "red") == "", "that is for the controllers to write"


Json = dict[str, Any]
NAMESPACE = "quadrant"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/coordinator"
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/quadrant"


def own_address() -> str:
    """An address of this machine that is no loopback: no endpoint may be one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


async def publish(cluster: ApiClient, address: str, port: int, *, port_name: str = "https") -> None:
    """The proxy goes to addresses of pods alone, so that there is one which nobody schedules."""
    metadata = {"name": "quadrant", "namespace": NAMESPACE}
    ports = [{"name": port_name, "port": 443, "targetPort": port}]
    await cluster.post(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        code=None,
    )
    stand_in = pod("coordinator", scheduler="nobody")
    stand_in["metadata"]["namespace"] = NAMESPACE
    await cluster.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}},
        stand_in,
    )
    status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
    await cluster.patch(f"{POD}/status", {"status": status})
    await endpoints(cluster, address, port, port_name=port_name)


async def endpoints(
    cluster: ApiClient, address: str, port: int, *, port_name: str = "https"
) -> None:
    labels = {"kubernetes.io/service-name": "quadrant"}
    target = {"kind": "Pod", "namespace": NAMESPACE, "name": "coordinator"}
    await cluster.create(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "quadrant", "namespace": NAMESPACE, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "targetRef": target}],
            "ports": [{"name": port_name, "port": port}],
        }
    )
