"""The compose file: whole in itself, and fitting the image and the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.api.listener.policy import open_gate
from coordinator.supervisor import ray_head
from shared.settings.settings import load_settings
from tests.deploy.commands import check_command, options_of
from tests.deploy.rendered import ROOT, compose, environment, pods_of, render

Service = dict[str, Any]

OURS = ("ray-head", "ray-worker", "cluster", "coordinator")
RAY = ("ray-head", "ray-worker", "coordinator")


def services() -> dict[str, Service]:
    result: dict[str, Service] = compose()["services"]
    return result


def test_every_reference_of_a_service_exists() -> None:
    file = compose()
    for name, service in services().items():
        assert set(service.get("secrets", [])) <= file["secrets"].keys(), name
        assert {c["source"] for c in service.get("configs", [])} <= file["configs"].keys(), name
        assert set(service.get("depends_on", {})) <= services().keys(), name
        assert set(service.get("networks", [])) <= file["networks"].keys(), name
        assert {v.split(":")[0] for v in service.get("volumes", [])} <= file["volumes"].keys(), name
        for field in ("network_mode", "pid", "ipc"):
            kind, _, other = service.get(field, "").partition(":")
            assert kind != "service" or other in services(), name
    for config in file["configs"].values():
        assert (ROOT / "docker" / config["file"]).is_file()
    for secret in file["secrets"].values():
        assert secret["file"].startswith("./secrets/"), "where git does not look"


def test_everything_declared_is_used() -> None:
    file = compose()
    used = {
        "secrets": {s for service in services().values() for s in service.get("secrets", [])},
        "configs": {c["source"] for s in services().values() for c in s.get("configs", [])},
        "volumes": {v.split(":")[0] for s in services().values() for v in s.get("volumes", [])},
    }
    for section, names in used.items():
        assert names == set(file[section]), section


def test_services_are_restricted() -> None:
    for name, service in services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not str(service["user"]).startswith("0"), name
        assert "privileged" not in service
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "only this machine reaches it"


def test_commands_exist() -> None:
    for name in OURS:
        check_command(services()[name]["command"])


def test_settings_are_known_and_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    for name in OURS:
        environment = services()[name].get("environment", {})
        assert all(isinstance(value, str) for value in environment.values()), (
            f"{name}: quote numbers"
        )
        with monkeypatch.context() as patch:
            for variable, value in environment.items():
                if variable.startswith("QUADRANT_"):
                    local = str(tmp_path / "secret") if variable.endswith("_FILE") else value
                    if variable == "QUADRANT_TOKENS_FILE":
                        local = str(ROOT / "k8s/overlays/playground/tokens.yaml")
                    patch.setenv(variable, local)
            if "QUADRANT_POLICY" in environment:
                patch.setenv("QUADRANT_POLICY", str(ROOT / "k8s/base/policy.yaml"))
            settings = load_settings()
            settings.read_policy()
            tokens = open_gate(settings)
        if "QUADRANT_LISTEN_HOST" in environment:
            assert tokens is not None, "it would not start without tokens"


def test_files_named_by_settings_are_mounted() -> None:
    for name, service in services().items():
        environment = service.get("environment", {})
        secrets = {f"/run/secrets/{s}" for s in service.get("secrets", [])}
        targets = {c["target"] for c in service.get("configs", [])}
        for variable, value in environment.items():
            if variable.endswith(("_FILE", "_TOKEN_PATH")):
                assert value in secrets, f"{name}: {variable}"
            if variable == "QUADRANT_POLICY":
                assert value in targets, name


def test_addresses_are_those_of_the_services() -> None:
    coordinator = services()["coordinator"]["environment"]
    cluster = options_of(services()["cluster"]["command"])
    assert coordinator["QUADRANT_REDIS_URL"] == cluster["--redis"] == "redis://redis:6379"
    assert coordinator["QUADRANT_CLUSTER_SOCKET"] == cluster["--socket"]
    assert coordinator["QUADRANT_ALLOWED_HOSTS"] == "ray-head", "others reach it by this name"
    assert services()["coordinator"]["network_mode"] == "service:ray-head"
    head = options_of(services()["ray-head"]["command"])
    worker = options_of(services()["ray-worker"]["command"])
    address = f"ray-head:{head['--port']}"
    assert coordinator["QUADRANT_RAY_ADDRESS"] == worker["--address"] == address
    (published,) = services()["ray-head"]["ports"]
    assert published.endswith(f":{coordinator['QUADRANT_LISTEN_PORT']}")


def test_the_coordinator_sees_its_ray_node() -> None:
    coordinator, head = services()["coordinator"], services()["ray-head"]
    for field in ("network_mode", "pid", "ipc"):
        assert coordinator[field] == "service:ray-head"
    assert head["ipc"] == "shareable"
    assert "ray:/tmp" in coordinator["volumes"]
    assert "ray:/tmp" in head["volumes"]


def test_the_parts_of_the_cluster_socket_share_its_directory() -> None:
    for name in ("coordinator", "cluster"):
        assert "run:/run/quadrant" in services()[name]["volumes"]


def test_workers_have_room_for_the_shards() -> None:
    environment = services()["coordinator"]["environment"]
    needed = int(environment["QUADRANT_SHARDS"]) * float(environment["QUADRANT_WORKER_CPUS"])
    assert int(options_of(services()["ray-worker"]["command"])["--num-cpus"]) >= needed
    assert options_of(services()["ray-head"]["command"])["--num-cpus"] == "0"


def test_ray_is_set_as_in_kubernetes() -> None:
    expected = ray_head.environment(Path("ray.token"), ours=True)
    del expected["RAY_AUTH_TOKEN_PATH"]
    del expected["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]  # keeps it on the loopback address
    for name in RAY:
        assert expected.items() <= services()[name]["environment"].items(), name
    heads = [p for p in pods_of(render("playground")) if p.component == "ray-head"]
    there = {k: v for k, v in environment(heads[0].containers[0]).items() if k != "RAY_AUTH_TOKEN"}
    here = services()["ray-head"]["environment"]
    assert {k: v for k, v in here.items() if k != "RAY_AUTH_TOKEN_PATH"} == there
    options = options_of(services()["ray-head"]["command"])
    assert heads[0].start.items() <= {k[2:]: v for k, v in options.items()}.items()


def test_readiness_is_asked_of_the_coordinator() -> None:
    test = services()["coordinator"]["healthcheck"]["test"]
    assert "/readyz" in test[-1]
    compile(test[-1], "healthcheck", "exec")
