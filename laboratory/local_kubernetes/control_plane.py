"""etcd and kube-apiserver, on the loopback or another address, with certificates of their own.

RBAC decides who may do what, and every answered request may be a line of an audit log. There is no
controller manager: nobody taints nodes, makes service accounts for namespaces, collects garbage or
ends a namespace that is being deleted.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from laboratory.local_kubernetes.authority import Authority, openssl
from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.errors import LocalClusterFailed
from laboratory.local_kubernetes.identity import MASTERS, Identity
from laboratory.local_kubernetes.server_process import (
    LOOPBACK,
    ReservedPort,
    ServerProcess,
)

PATIENCE = 90.0
"""Seconds that a server may take to be ready: 3.4 on a quiet machine."""

ADMISSION_LEFT_OUT = ("ServiceAccount", "TaintNodesByCondition")
"""The first wants an account for each pod, which only a controller makes; the second taints every
new node until a controller lifts it."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        # What was asked, where it is the only record of what a scheduler decided.
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding", "pods/eviction"]}],
        },
        {"level": "Metadata"},
    ],
}

_CLIENTS = "clients:0"
"""Socket of etcd, in the folder of the control plane."""


class ControlPlane:
    """Both servers, with their data in ``folder`` (keep its path short: etcd has a socket there).

    ``api_server`` and ``etcd`` may be killed and started again; ``wait`` says when all is well
    again.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Binaries,
        *,
        audited: bool = True,
        api_server_options: Sequence[str] = (),
        address: str = LOOPBACK,
        within: Sequence[str] = (),
    ) -> None:
        """``audited``: every answered request is a line of :attr:`audit_log`. ``address``: where
        the API server listens; ``within``: a command that starts both servers where that is."""
        self.folder = folder
        self._address = address
        self.audit_log = folder / "audit.log"
        self._port = ReservedPort()
        self._authority = Authority(folder, "cluster")
        self.url = f"https://{address}:{self._port.number}"
        self.serving = self._authority.issue("kube-apiserver", address=address)
        """(certificate, key) of whoever serves there."""
        self.admin = self.user("admin", MASTERS)
        self.etcd = ServerProcess(self._etcd_command(binaries), folder, within=within)
        audit = self._audit() if audited else []
        command = [*self._api_server_command(binaries), *audit, *api_server_options]
        self.api_server = ServerProcess(command, folder, within=within)

    def start(self) -> None:
        """Start what does not run and wait until all is well."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start what does not run."""
        for server in (self.etcd, self.api_server):
            if server.pid is None:
                server.start()

    def stop(self) -> None:
        self.api_server.kill()
        self.etcd.kill()
        self._port.close()

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait until the API server says that it is ready."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            self.etcd.check()
            self.api_server.check()
            if time.monotonic() > deadline:
                raise LocalClusterFailed(
                    f"not ready in {seconds:.0f} s:\n{self.api_server.last_lines()}"
                )
            time.sleep(0.1)

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self.url}/readyz", timeout=5, context=self.admin.tls()
            ) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except (urllib.error.URLError, OSError):
            return False

    def user(self, name: str, *groups: str) -> Identity:
        """A user by certificate. What it may do is a matter of RBAC objects that name it."""
        certificate = self._authority.issue(name, groups=groups)
        return self._identity(name, certificate=certificate)

    def bearer(self, name: str, token: str, *, server: str | None = None) -> Identity:
        """Identity with this token, such as a service account's. ``server``: an address that leads
        here, with the same certificate."""
        return self._identity(name, token=token, server=server)

    def trust(self) -> ssl.SSLContext:
        """TLS context that trusts the API server's certificate and presents none."""
        return ssl.create_default_context(cafile=str(self._authority.certificate))

    def compact(self) -> None:
        """Have etcd forget all versions but the newest, so that watches from older ones expire.

        The API server remembers the last ones by itself: kill it before.
        """
        status = self._ask_etcd("/v3/maintenance/status", {})
        revision = {"revision": status["header"]["revision"], "physical": True}
        self._ask_etcd("/v3/kv/compaction", revision)

    def _ask_etcd(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """One call of etcd's JSON gateway."""
        connection = http.client.HTTPConnection("etcd", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        with contextlib.closing(connection):
            connection.sock.connect(str(self.folder / _CLIENTS))
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != HTTPStatus.OK:
            raise LocalClusterFailed(f"etcd: {path} answers {answer.status}: {text.decode()}")
        value: dict[str, Any] = json.loads(text)
        return value

    def _identity(
        self,
        name: str,
        *,
        certificate: tuple[Path, Path] | None = None,
        token: str | None = None,
        server: str | None = None,
    ) -> Identity:
        path = self.folder / f"{name}.kubeconfig"
        ca = self._authority.certificate
        return Identity(server or self.url, ca, path, certificate, token).write()

    def _etcd_command(self, binaries: Binaries) -> list[str | Path]:
        # Unix sockets, named so that they look like the host and port that etcd insists on.
        clients, peers = f"unix://{_CLIENTS}", "unix://peers:0"
        return [
            binaries.etcd,
            f"--data-dir={self.folder}/etcd",
            "--name=local",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=local={peers}",
            # A killed process loses nothing by it, only a machine would.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_command(self, binaries: Binaries) -> list[str | Path]:
        certificate, key = self.serving
        accounts, accounts_public = self.folder / "accounts.key", self.folder / "accounts.pub"
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        openssl("genpkey", *curve, "-out", accounts)
        openssl("pkey", "-in", accounts, "-pubout", "-out", accounts_public)
        return [
            binaries.api_server,
            f"--etcd-servers=unix://{self.folder}/{_CLIENTS}",
            f"--bind-address={self._address}",
            f"--secure-port={self._port.number}",
            "--permit-port-sharing",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self._authority.certificate}",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={accounts_public}",
            f"--service-account-signing-key-file={accounts}",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={','.join(ADMISSION_LEFT_OUT)}",
            # The address would be entered as an endpoint, and no endpoint may be of the loopback.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--shutdown-delay-duration=0",
        ]

    def _audit(self) -> list[str]:
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        return [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
        ]
