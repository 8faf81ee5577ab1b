"""Every object that an overlay renders: known, whole, and fitting the code it configures."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.api.app import make_app
from coordinator.api.auth.tokens import parse_tokens
from coordinator.api.listener.policy import open_gate
from coordinator.api.listener.provenance import AllowedHosts
from coordinator.cli.client.service_proxy import ACCOUNT, SERVICE, parse_account, parse_service
from coordinator.intake.principal import TokenRole
from coordinator.supervisor import ray_head
from shard_worker.dialects.open_session import open_session
from shared.policy.dialect import parse_policy
from shared.settings.addresses import parse_names
from shared.settings.settings import Settings, load_settings
from tests.deploy.commands import check_command, check_ray_options, options_of
from tests.deploy.fields import API_VERSIONS, check_object, check_pod, probes_of
from tests.deploy.network import selects
from tests.deploy.rendered import (
    FOR_TLS,
    MADE_BY_HAND,
    OBSERVED,
    OVERLAYS,
    ROOT,
    SCHEDULING,
    SIMULATED,
    Object,
    RenderedPods,
    environment,
    namespace_of,
    of_kind,
    one,
    pods_of,
    render,
)

Objects = tuple[Object, ...]


def overlay_of(objects: Objects) -> str:
    return next(overlay for overlay in OVERLAYS if render(overlay) == objects)


@pytest.fixture(params=OVERLAYS)
def objects(request: pytest.FixtureRequest) -> Objects:
    return render(request.param)


# --- form -------------------------------------------------------------------------------------


def test_every_object_is_of_a_known_form(objects: Objects) -> None:
    for o in objects:
        check_object(o)
    for pods in pods_of(objects):
        check_pod(pods.spec, pods.owner)
    assert {o["kind"] for o in objects} <= API_VERSIONS.keys()


def test_a_misspelt_field_is_found() -> None:
    pods = pods_of(render("playground"))[0]
    with pytest.raises(AssertionError, match="runAsNonRoot"):
        check_pod({**pods.spec, "runAsNonRoot": True}, "pod")


def test_names_are_unique_and_in_the_namespace(objects: Objects) -> None:
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)
    for o in objects:
        if o["kind"] not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            assert o["metadata"]["namespace"] == namespace_of(objects), o["metadata"]["name"]


def test_selectors_match_the_pods_they_are_meant_for(objects: Objects) -> None:
    for kind in ("Deployment", "StatefulSet"):
        for o in of_kind(objects, kind):
            assert selects(o["spec"]["selector"], o["spec"]["template"]["metadata"]["labels"])
    pods = pods_of(objects)
    for kind in ("Service", "PodDisruptionBudget"):
        for o in of_kind(objects, kind):
            selector = o["spec"]["selector"]
            selector = selector if kind == "PodDisruptionBudget" else {"matchLabels": selector}
            hit = [p for p in pods if selects(selector, p.labels)]
            assert len(hit) == 1, f"{kind}/{o['metadata']['name']} selects {len(hit)} kinds of pods"


def test_service_ports_lead_to_ports_of_containers(objects: Objects) -> None:
    for service in of_kind(objects, "Service"):
        selector = {"matchLabels": service["spec"]["selector"]}
        (pods,) = [p for p in pods_of(objects) if selects(selector, p.labels)]
        names = {port["name"] for c in pods.containers for port in c.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


# --- security ---------------------------------------------------------------------------------


def test_pods_are_restricted(objects: Objects) -> None:
    (namespace,) = of_kind(objects, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pods in pods_of(objects):
        security = pods.spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pods.containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, container["name"]
            assert container["resources"]["limits"].keys() == {"memory"}
        for volume in pods.spec["volumes"]:
            assert "hostPath" not in volume


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_a_coordinator_that_follows_its_cluster_has_rights_there(overlay: str) -> None:
    objects = render(overlay)
    accounts = of_kind(objects, "ServiceAccount")
    assert {account["automountServiceAccountToken"] for account in accounts} == {False}
    for pods in pods_of(objects):
        assert pods.spec["serviceAccountName"] == "quadrant"
        follows = overlay in OBSERVED and pods.component == "coordinator"
        assert pods.spec["automountServiceAccountToken"] is follows
    assert not [o for o in objects if "Webhook" in o["kind"]]
    assert not of_kind(objects, "RoleBinding"), "who may use the plugin is said by an admin"
    reads = {("quadrant-reads", "quadrant")}
    schedules = reads | {
        ("quadrant-writes", "quadrant"),
        ("quadrant-reviews", "quadrant"),
        ("quadrant-view", "quadrant-client"),
    }
    kai = schedules | {("quadrant-kai-binder", "quadrant")}
    bound = set()
    for binding in of_kind(objects, "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert binding["roleRef"]["name"] == binding["metadata"]["name"]
        assert subject["namespace"] == "quadrant"
        bound.add((binding["metadata"]["name"], subject["name"]))
    allowed = {"kubernetes": schedules, "kai": kai, "shadow": reads}
    assert bound == allowed.get(overlay, set())


def test_the_plugin_has_the_rights_that_its_errors_name() -> None:
    objects = render("kubernetes")
    (role,) = of_kind(objects, "Role")
    assert role["metadata"]["name"] == "quadrant-client"
    service = parse_service(SERVICE)
    account = parse_account(ACCOUNT)
    assert service is not None
    assert account is not None
    assert [(r["resources"], r["resourceNames"]) for r in role["rules"]] == [
        (["services/proxy"], [service.resource_name]),
        (["serviceaccounts/token"], [account.name]),
    ]
    assert one(objects, "ServiceAccount", account.name)["metadata"]["namespace"] == "quadrant"
    (port,) = one(objects, "Service", service.name)["spec"]["ports"]
    assert port["name"] == service.port


def test_the_view_role_writes_nothing_but_plans() -> None:
    role = one(render("kubernetes"), "ClusterRole", "quadrant-view")
    verbs = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule.get("resources", rule.get("nonResourceURLs"))
        for verb in rule["verbs"]
    }
    assert {pair for pair in verbs if pair[1] not in ("get", "list")} == {("plans", "create")}


def test_the_shadow_has_no_verb_that_writes() -> None:
    (role,) = of_kind(render("shadow"), "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert environment(_container(render("shadow"), "coordinator"))["QUADRANT_SHADOW"] == "true"


def test_with_kais_binder_nothing_has_the_right_to_bind() -> None:
    """And without it nothing has a right to BindRequests."""

    def resources(overlay: str) -> set[str]:
        roles = of_kind(render(overlay), "ClusterRole")
        rules = [rule for role in roles for rule in role["rules"]]
        return {name for rule in rules for name in rule.get("resources", ())}

    assert resources("kai") ^ resources("kubernetes") == {"pods/binding", "bindrequests"}
    assert "pods/binding" not in resources("kai")
    env = environment(_container(render("kai"), "coordinator"))
    assert env["QUADRANT_BINDER"] == "kai"


def test_ours_run_as_the_user_of_the_image(objects: Objects) -> None:
    for pods in pods_of(objects):
        if pods.component != "ledger":
            assert pods.spec["securityContext"]["runAsUser"] == 65532
            images = {container["image"] for container in pods.containers}
            assert len(images) == 1
            assert images.pop().endswith("quadrant:0.1.0")


# --- what containers are given ----------------------------------------------------------------


def test_volumes_are_mounted_and_their_sources_exist(objects: Objects) -> None:
    for pods in pods_of(objects):
        mounted = {m["name"] for c in pods.containers for m in c["volumeMounts"]}
        volumes = {v["name"] for v in pods.spec["volumes"]}
        volumes |= {claim for claim in _claims(objects) if pods.owner.startswith("StatefulSet")}
        assert mounted == volumes, pods.owner
        for volume in pods.spec["volumes"]:
            _check_source(objects, volume)


def test_environment_from_secrets_exists(objects: Objects) -> None:
    for pods in pods_of(objects):
        for container in pods.containers:
            for variable in container.get("env", []):
                if source := variable.get("valueFrom"):
                    reference = source["secretKeyRef"]
                    _check_secret(objects, reference["name"], {reference["key"]})


def test_settings_are_known_and_valid(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The settings class itself judges them, with files in the place of those of the container."""
    setting_names = {f"QUADRANT_{name.upper()}" for name in Settings.model_fields}
    for container in [c for pods in pods_of(objects) for c in pods.containers]:
        env = {k: v for k, v in environment(container).items() if k.startswith("QUADRANT_")}
        assert env.keys() <= setting_names, container["name"]
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, _local(name, value, tmp_path))
            settings = load_settings()
        if "QUADRANT_POLICY" in env:
            assert settings.read_policy() is not None
        if "QUADRANT_LISTEN_HOST" in env:
            assert open_gate(settings) is not None, "it would not start without tokens"
            assert settings.access_reviews == (overlay_of(objects) in SCHEDULING)


def test_the_names_of_the_service_are_allowed(objects: Objects) -> None:
    service = one(objects, "Service", "quadrant")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    below = f"{name}.{namespace}"
    (coordinator,) = [
        env
        for pods in pods_of(objects)
        for container in pods.containers
        if "QUADRANT_LISTEN_HOST" in (env := environment(container))
    ]
    hosts = AllowedHosts(parse_names(coordinator["QUADRANT_ALLOWED_HOSTS"]))
    for host in (name, below, f"{below}.svc", f"{below}.svc.cluster.local"):
        assert hosts.include(f"{host}:{service['spec']['ports'][0]['port']}"), host
    assert not hosts.include("evil.svc.cluster.local")


def test_the_playgrounds_token_is_the_one_in_its_comment() -> None:
    text = (ROOT / "k8s/overlays/playground/tokens.yaml").read_text()
    token = text.partition("\n")[0].split()[-1]
    result = parse_tokens(text).find(token)
    assert result is not None
    assert result.role is TokenRole.ADMIN
    secret_data = one(render("playground"), "Secret", "quadrant-tokens")["data"]
    assert base64.b64decode(secret_data["tokens.yaml"]).decode() == text


def test_files_of_secrets_are_mounted_where_settings_name_them(objects: Objects) -> None:
    for pods in pods_of(objects):
        for container in pods.containers:
            env = environment(container)
            named = {v for k, v in env.items() if k.startswith("QUADRANT_") and "FILE" in k}
            volumes = {v["name"]: v for v in pods.spec["volumes"]}
            there = {
                f"{mount['mountPath']}/{item['path']}"
                for mount in container["volumeMounts"]
                for source in volumes.get(mount["name"], {}).get("projected", {}).get("sources", [])
                for item in source["secret"]["items"]
            }
            assert named <= there, container["name"]


def test_no_variable_of_a_service_reaches_the_settings(objects: Objects) -> None:
    """QUADRANT_LEDGER_PORT and the like would be refused as unknown settings."""
    for pods in pods_of(objects):
        assert pods.spec["enableServiceLinks"] is False, pods.owner


def test_addresses_are_those_of_the_services(objects: Objects) -> None:
    coordinator = _container(objects, "coordinator")
    env = environment(coordinator)
    ledger = one(objects, "Service", "quadrant-ledger")
    (port,) = ledger["spec"]["ports"]
    address = f"redis://{ledger['metadata']['name']}:{port['port']}"
    assert env["QUADRANT_REDIS_URL"] == address
    if "QUADRANT_IN_CLUSTER" in env:
        assert "QUADRANT_CLUSTER_SOCKET" not in env
    else:
        cluster = options_of(_container(objects, "simulated-cluster")["command"])
        assert cluster["--redis"] == address
        assert cluster["--socket"] == env["QUADRANT_CLUSTER_SOCKET"]
    (ray,) = of_kind(objects, "RayCluster")
    head = f"{ray['metadata']['name']}-head-svc:6379"  # KubeRay's name for it
    assert env["QUADRANT_RAY_ADDRESS"] == head
    assert options_of(_container(objects, "ray-node")["command"])["--address"] == head


def test_the_policy_is_one_that_this_version_can_follow(objects: Objects) -> None:
    (file,) = [o for o in of_kind(objects, "ConfigMap") if "policy.yaml" in o["data"]]
    policy = parse_policy(file["data"]["policy.yaml"])
    open_session(policy)
    assert not policy.warnings


# --- commands and probes ----------------------------------------------------------------------


def test_commands_exist(objects: Objects) -> None:
    for pods in pods_of(objects):
        for container in pods.containers:
            if pods.start:
                check_ray_options([*(f"--{k}={v}" for k, v in pods.start.items()), "--block"])
            elif pods.component != "ledger":
                check_command(container["command"])


def test_probes_name_existing_paths(objects: Objects) -> None:
    for pods in pods_of(objects):
        for container in pods.containers:
            for probe in probes_of(container):
                _check_probe(pods, container, probe)


def test_the_api_is_probed_for_life_and_readiness(objects: Objects) -> None:
    container = _container(objects, "coordinator")
    assert container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert re.search("GET.*/livez", container["livenessProbe"]["exec"]["command"][-1])
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    (port,) = container["ports"]
    assert environment(container)["QUADRANT_LISTEN_PORT"] == str(port["containerPort"])


# --- Ray --------------------------------------------------------------------------------------


def test_ray_is_the_one_of_the_lock(objects: Objects) -> None:
    (ray,) = of_kind(objects, "RayCluster")
    lock = (ROOT / "requirements.lock").read_text()
    assert f"\nray=={ray['spec']['rayVersion']} " in lock


def test_ray_asks_for_its_token(objects: Objects) -> None:
    (ray,) = of_kind(objects, "RayCluster")
    assert ray["spec"]["authOptions"] == {"mode": "token", "secretName": "quadrant-ray"}
    for container in [*_ray_nodes(objects), _container(objects, "coordinator")]:
        env = environment(container)
        assert env["RAY_AUTH_MODE"] == "token"
        assert env.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}


def test_ray_nodes_are_set_as_an_embedded_head_is(objects: Objects) -> None:
    expected = ray_head.environment(Path("ray.token"), ours=True)
    del expected["RAY_AUTH_TOKEN_PATH"]
    del expected["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]  # keeps it on the loopback address
    for container in _ray_nodes(objects):
        assert expected.items() <= environment(container).items(), container["name"]


def test_ray_nodes_have_room_for_the_shards(objects: Objects) -> None:
    env = environment(_container(objects, "coordinator"))
    needed = int(env["QUADRANT_SHARDS"]) * float(env["QUADRANT_WORKER_CPUS"])
    (ray,) = of_kind(objects, "RayCluster")
    (group,) = ray["spec"]["workerGroupSpecs"]
    assert group["minReplicas"] == group["replicas"] == group["maxReplicas"]
    cpus = int(group["rayStartParams"]["num-cpus"])
    assert group["replicas"] * cpus >= needed
    assert ray["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert options_of(_container(objects, "ray-node")["command"])["--num-cpus"] == "0"
    budget = one(objects, "PodDisruptionBudget", "quadrant-ray-worker")
    assert budget["spec"]["minAvailable"] == group["replicas"] - 1


def test_real_overlays_survive_the_loss_of_a_ray_worker() -> None:
    objects = render("shadow")
    env = environment(_container(objects, "coordinator"))
    (group,) = one(objects, "RayCluster", "quadrant-ray")["spec"]["workerGroupSpecs"]
    left = (group["replicas"] - 1) * int(group["rayStartParams"]["num-cpus"])
    assert left >= int(env["QUADRANT_SHARDS"]) * float(env["QUADRANT_WORKER_CPUS"])


def test_the_coordinator_sees_its_ray_node(objects: Objects) -> None:
    """A driver looks for its node among the processes, and meets it in /tmp and /dev/shm."""
    (pods,) = [p for p in pods_of(objects) if p.component == "coordinator"]
    assert pods.spec["shareProcessNamespace"] is True
    for path in ("/tmp", "/dev/shm"):
        names = {_mount(pods, name, path) for name in ("ray-node", "coordinator")}
        assert len(names) == 1
    for sidecar in pods.spec["initContainers"]:
        assert sidecar["restartPolicy"] == "Always"
        assert "startupProbe" in sidecar


def test_there_is_one_coordinator_and_one_ledger(objects: Objects) -> None:
    deployment = one(objects, "Deployment", "quadrant-coordinator")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert one(objects, "StatefulSet", "quadrant-ledger")["spec"]["replicas"] == 1


# --- helpers ----------------------------------------------------------------------------------


def _container(objects: Objects, name: str) -> dict[str, Any]:
    (result,) = [c for pods in pods_of(objects) for c in pods.containers if c["name"] == name]
    return result


def _ray_nodes(objects: Objects) -> list[dict[str, Any]]:
    return [_container(objects, name) for name in ("ray-head", "ray-worker", "ray-node")]


def _mount(pods: RenderedPods, container: str, path: str) -> str:
    (result,) = [c for c in pods.containers if c["name"] == container]
    (name,) = [m["name"] for m in result["volumeMounts"] if m["mountPath"] == path]
    return str(name)


def _claims(objects: Objects) -> list[str]:
    sets = of_kind(objects, "StatefulSet")
    return [c["metadata"]["name"] for s in sets for c in s["spec"]["volumeClaimTemplates"]]


def _check_source(objects: Objects, volume: dict[str, Any]) -> None:
    if source := volume.get("configMap"):
        one(objects, "ConfigMap", source["name"])
    if source := volume.get("persistentVolumeClaim"):
        one(objects, "PersistentVolumeClaim", source["claimName"])
    if source := volume.get("secret"):
        _check_secret(objects, source["secretName"], {i["key"] for i in source["items"]})
    for part in volume.get("projected", {}).get("sources", []):
        _check_secret(objects, part["secret"]["name"], {i["key"] for i in part["secret"]["items"]})


def _check_secret(objects: Objects, name: str, keys: set[str]) -> None:
    items = {s["metadata"]["name"]: set(s["data"]) for s in of_kind(objects, "Secret")}
    assert keys <= (items or MADE_BY_HAND | FOR_TLS)[name], f"secret {name} has no {keys}"


def _local(name: str, value: str, directory: Path) -> str:
    """A file here in the place of the one that the container has."""
    if name == "QUADRANT_TOKENS_FILE":
        return str(ROOT / "k8s/overlays/playground/tokens.yaml")
    if name == "QUADRANT_POLICY":
        return str(ROOT / "k8s/base/policy.yaml")
    if name.endswith("_FILE"):
        (directory / "secret").write_text("secret\n")
        return str(directory / "secret")
    return value


def _check_probe(pods: RenderedPods, container: dict[str, Any], probe: dict[str, Any]) -> None:
    named = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    if action := probe.get("httpGet"):
        assert action["port"] in named
        assert action["path"] in _paths(), action["path"]
    if action := probe.get("tcpSocket"):
        fixed = {str(v) for v in named.values()} | set(pods.start.values())
        fixed |= set(options_of(container["command"]).values()) if "command" in container else set()
        assert str(action["port"]) in fixed | named.keys(), container["name"]
    if (action := probe.get("exec")) and container["name"] == "simulated-cluster":
        assert action["command"][-1] == options_of(container["command"])["--socket"]


def _paths() -> set[str]:
    def nothing(*_: Any, **__: Any) -> Awaitable[Any]:
        raise AssertionError("not called")

    app = make_app(submit=nothing, status=dict, ready=lambda: True)
    return {route.resource.canonical for route in app.router.routes() if route.resource}


def test_the_simulating_overlay_says_so_in_its_names(objects: Objects) -> None:
    simulated = [
        container["name"]
        for pods in pods_of(objects)
        for container in pods.containers
        if "coordinator.cluster.simulated.server" in container.get("command", ())
    ]
    if overlay_of(objects) == SIMULATED:
        assert (simulated, namespace_of(objects)) == (["simulated-cluster"], "quadrant-playground")
    else:
        assert (simulated, namespace_of(objects)) == ([], "quadrant")


def test_only_the_playground_has_secrets_that_everybody_knows() -> None:
    assert {s["metadata"]["name"] for s in of_kind(render("playground"), "Secret")} == set(
        MADE_BY_HAND
    )
    assert not of_kind(render("shadow"), "Secret")
    text = yaml.safe_dump_all(render("shadow"))
    assert "for-a-playground-only" not in text
