"""Where the server is, and who asks."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

from coordinator.cli.client.kubeconfig import (
    DEFAULT_SERVER,
    contexts,
    find_access,
    write_kubeconfig,
)
from coordinator.cli.client.service_proxy import parse_service
from shared.kubeconfig import ConfigError

CONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster: {server: "https://one:6443/", certificate-authority-data: UEVN}
- name: c2
  cluster: {server: "http://two:8080", insecure-skip-tls-verify: true}
contexts:
- name: one
  context: {cluster: c1, user: u1, namespace: team}
- name: two
  context: {cluster: c2, user: u2}
- name: broken
  context: {cluster: nowhere, user: u1}
users:
- name: u1
  user: {token: abc}
- name: u2
  user: {tokenFile: token}
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    (tmp_path / "token").write_text("from-file\n")
    return {"KUBECONFIG": str(path)}


def test_nothing_said_is_where_up_listens(tmp_path: Path) -> None:
    access = find_access(environ={"HOME": str(tmp_path)})
    assert (access.server, access.token) == (DEFAULT_SERVER, None)


def test_the_current_context(config: dict[str, str]) -> None:
    access = find_access(environ=config)
    assert access.server == "https://one:6443"
    assert (access.token, access.namespace, access.trust.ca) == ("abc", "team", "PEM")
    assert access.trust.verify


def test_another_context(config: dict[str, str]) -> None:
    access = find_access(context="two", environ=config | {"QUADRANT_SERVER": "http://other"})
    assert (access.server, access.token) == ("http://two:8080", "from-file")
    assert not access.trust.verify


def test_a_named_server_gets_no_token_of_the_kubeconfig(config: dict[str, str]) -> None:
    access = find_access(server="host:81", environ=config)
    assert (access.server, access.token, access.origin) == ("http://host:81", None, "--server")
    access = find_access(environ=config | {"QUADRANT_SERVER": "http://env"})
    assert (access.server, access.token) == ("http://env", None)


def test_tokens_of_the_environment(config: dict[str, str], tmp_path: Path) -> None:
    assert find_access(environ=config | {"QUADRANT_TOKEN": "t "}).token == "t"
    path = str(tmp_path / "token")
    assert find_access(environ={"QUADRANT_TOKEN_FILE": path}).token == "from-file"
    with pytest.raises(ConfigError, match="QUADRANT_TOKEN_FILE"):
        find_access(environ={"QUADRANT_TOKEN_FILE": path + "x"})


@pytest.mark.parametrize(
    ("context", "message"), [("three", "one, two, broken"), ("broken", "clusters")]
)
def test_a_wrong_context_is_told(config: dict[str, str], context: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_access(context=context, environ=config)


def test_files_that_are_no_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("a: [", "- 1", "\x00"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="config"):
            find_access(environ={"KUBECONFIG": str(path)})
    for server in ("ftp://x", "http://", "http://[::1", "x:99999", "x:port", "http://x y", "x:1\n"):
        with pytest.raises(ConfigError, match="--server"):
            find_access(server=server, environ={})


def test_a_malformed_token_is_refused_and_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("team-a\nqdt_secret\n")
    for environ in (
        {"QUADRANT_TOKEN": "qdt_secret\nb"},
        {"QUADRANT_TOKEN": "qdt_secret\u00fc"},
        {"QUADRANT_TOKEN_FILE": str(tmp_path / "token")},
    ):
        with pytest.raises(ConfigError, match="one word, alone") as report:
            find_access(environ=environ)
        assert "secret" not in str(report.value)


def test_a_context_shows_what_its_user_has(config: dict[str, str], tmp_path: Path) -> None:
    """A certificate, or what a program prints: for API servers, which Quadrant is behind."""
    encoded = {part: base64.b64encode(part.encode()).decode() for part in ("CERT", "KEY")}
    printed = json.dumps({"status": {"token": "printed"}})
    users = {
        "certificate": {
            "client-certificate-data": encoded["CERT"],
            "client-key-data": encoded["KEY"],
        },
        "program": {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "echo",
                "args": [printed],
            }
        },
    }
    path = tmp_path / "cluster"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"}}],
                "contexts": [
                    {"name": name, "context": {"cluster": "c", "user": name}} for name in users
                ],
                "users": [{"name": name, "user": user} for name, user in users.items()],
            }
        )
    )
    environ = {"KUBECONFIG": str(path), "QUADRANT_TOKEN": "ours"}
    access = find_access(context="certificate", environ=environ)
    assert access.trust.certificate == (b"CERT", b"KEY")
    assert access.of_context
    assert (access.user_token, access.quadrant_token) == (None, "ours")
    access = find_access(context="program", environ=environ)
    assert (access.user_token, access.quadrant_token) == ("printed", "ours")


def test_the_certificate_authority_is_set_beside_the_server(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("PEM")
    environ = {"QUADRANT_SERVER": "https://q:1", "QUADRANT_CA_FILE": str(tmp_path / "ca")}
    assert find_access(environ=environ).trust.ca == "PEM"
    with pytest.raises(ConfigError, match="QUADRANT_CA_FILE"):
        find_access(environ=environ | {"QUADRANT_CA_FILE": str(tmp_path / "no")})


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("a/b", "/api/v1/namespaces/a/services/https:b:https/proxy"),
        ("a/b:443", "/api/v1/namespaces/a/services/https:b:443/proxy"),
        ("b", None),
        ("a/", None),
        ("a/b:", None),
        ("a/b/c", None),
        ("a/../b", None),
        ("a/b?c", None),
    ],
)
def test_a_service_is_named_by_namespace_and_name(text: str, root: str | None) -> None:
    service = parse_service(text)
    assert (None if service is None else service.root) == root


def test_several_files_are_one(config: dict[str, str], tmp_path: Path) -> None:
    ours = write_kubeconfig(tmp_path / "ours", server="http://127.0.0.1:1")
    both = {"KUBECONFIG": f"{ours}:{config['KUBECONFIG']}:{tmp_path / 'absent'}"}
    assert contexts(both) == ["quadrant", "one", "two", "broken"]
    assert find_access(environ=both).server == "http://127.0.0.1:1"
    assert find_access(context="one", environ=both).namespace == "team"


def test_the_kubeconfig_of_up_is_private_and_readable_by_kubectl(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    token = tmp_path / "token"
    token.write_text("secret")
    write_kubeconfig(path, server="http://127.0.0.1:8080", token_file=token)
    assert path.stat().st_mode & 0o777 == 0o600
    access = find_access(environ={"KUBECONFIG": str(path)})
    assert (access.server, access.token) == ("http://127.0.0.1:8080", "secret")
    assert access.namespace == "default"
    kubectl = which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH: whether it reads our kubeconfig was not tested")
    command = [kubectl, "--kubeconfig", str(path), "config", "view", "--minify"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "server: http://127.0.0.1:8080" in result.stdout
    assert "tokenFile" in result.stdout


def test_the_kubeconfig_of_up_with_tls_has_the_ca_and_a_token(tmp_path: Path) -> None:
    """kubectl would ask for a name where it speaks TLS and has nothing to show."""
    ca = tmp_path / "tls.crt"
    ca.write_text("PEM")
    path = write_kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:8080", ca_file=ca)
    access = find_access(environ={"KUBECONFIG": str(path)})
    assert (access.server, access.trust.ca) == ("https://127.0.0.1:8080", "PEM")
    assert access.token
