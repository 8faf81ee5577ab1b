"""Manifests: what is read from them, and that every mistake is named with path and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import InvalidInput, Refusal
from shared.manifests.kubernetes.objects import NodeManifest, PodManifest
from shared.manifests.kubernetes.pods import template
from shared.manifests.parse import parse, parse_stored
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest
from shared.model.constraints import Requirement, Taint, Toleration
from shared.model.model import PriorityClass
from shared.model.topology import HyperNode
from shared.units.things import PORTS_OF_A_POD
from tests.builders.objects import (
    EVERY_KIND,
    container,
    hyper_node,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
)

GI = 1 << 30
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requests(**spec: Any) -> dict[str, int]:
    parsed = parse(pod(**spec))
    assert isinstance(parsed, PodManifest), parsed
    return dict(parsed.template.requests)


# --- what a pod asks for ----------------------------------------------------------------------


def test_containers_add_up() -> None:
    assert requests(containers=[container("100m"), container("1.5", "2Gi")]) == {
        "cpu": 1600,
        "memory": 3 * GI,
    }


def test_init_containers_run_one_after_another() -> None:
    spec = {
        "containers": [container("1"), container("1")],
        "initContainers": [container("3", "1Gi"), container("1", "5Gi")],
    }
    assert requests(**spec) == {"cpu": 3000, "memory": 5 * GI}


def test_a_sidecar_stays() -> None:
    """The second step runs beside the sidecar; the first one ran before it was there."""
    spec = {
        "containers": [container("1")],
        "initContainers": [
            container("4"),
            container("2", "1Gi", restartPolicy="Always"),
            container("3"),
        ],
    }
    assert requests(**spec) == {"cpu": 5000, "memory": 2 * GI}


def test_overhead_is_added() -> None:
    assert requests(overhead={"cpu": "250m"})["cpu"] == 1250


def test_requests_default_to_limits_resource_by_resource() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}}
    assert requests(containers=[{"resources": resources}]) == {"cpu": 1000, "nvidia.com/gpu": 1000}


@pytest.mark.parametrize("part", ["requests", "limits"])
@pytest.mark.parametrize("amount", ["0.5", "1500m", 0.5])
def test_a_part_of_an_extended_resource_is_refused(part: str, amount: object) -> None:
    whole = {"cpu": "0.5", "nvidia.com/gpu": 2, "example.com/fpga": "2k"}
    assert isinstance(parse(pod(containers=[{"resources": {part: whole}}])), PodManifest)
    item = pod(containers=[{"resources": {part: {"nvidia.com/gpu": amount}}}])
    refusal = parse(item)
    assert isinstance(refusal, Refusal)
    assert refusal.field == f"spec.containers[0].resources.{part}.nvidia.com/gpu"
    assert refusal.message.startswith("not a whole number; ask for whole ones")
    assert isinstance(parse_stored(item), PodManifest)  # accepted by an earlier version


def test_a_pod_that_asks_for_nothing() -> None:
    assert requests(containers=[{"name": "c"}]) == {}
    assert requests(containers=[container("0", "0Gi")]) == {}


def ports(**spec: object) -> list[str]:
    result = template(spec)
    assert not result.requests
    assert all(amounts == (1,) for _, amounts in result.things)
    return [name for name, _ in result.things]


def test_host_ports_are_things_of_the_node() -> None:
    named = [{"hostPort": 80}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
    assert ports(containers=[{"ports": [*named, {"containerPort": 9}]}]) == [
        "port/TCP/80",
        "port/UDP/53",
    ]


def test_a_host_port_counts_once_for_all_addresses() -> None:
    """Two containers of one pod share the network of it: Kubernetes refuses the pod, or not."""
    addresses = [{"hostPort": 80, "hostIP": f"10.0.0.{n}"} for n in (1, 2)]
    assert ports(containers=[{"ports": addresses}]) == ["port/TCP/80"]


def test_an_init_container_gives_its_ports_back_unless_it_stays() -> None:
    ends, stays = {"ports": [{"hostPort": 1}]}, {"ports": [{"hostPort": 2}]}
    spec = {"initContainers": [ends, stays | {"restartPolicy": "Always"}], "containers": [{}]}
    assert ports(**spec) == ["port/TCP/2"]


def test_with_host_network_every_port_is_the_hosts() -> None:
    spec = {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 9}]}]}
    assert ports(**spec) == ["port/TCP/9"]


def test_more_host_ports_than_a_pod_may_have_name_the_one_too_many() -> None:
    many = [{"hostPort": 1 + n} for n in range(PORTS_OF_A_POD)]
    assert len(ports(containers=[{"ports": many}])) == PORTS_OF_A_POD
    again = [*many, {"hostPort": 1}]
    assert len(ports(containers=[{"ports": again}])) == PORTS_OF_A_POD
    with pytest.raises(InvalidInput) as refused:
        ports(containers=[{}, {"ports": [*many, {"hostPort": 9999}]}])
    assert refused.value.field == "spec.containers[1].ports[32].hostPort"
    assert "at most 32 ports of its node" in str(refused.value)


# --- where it may run -------------------------------------------------------------------------


def test_required_node_affinity() -> None:
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["5"]}]},
        {},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    parsed = parse(pod(affinity=affinity))
    assert isinstance(parsed, PodManifest)
    assert parsed.template.affinity == (
        (Requirement("a", "Gt", ("5",)),),
        (Requirement("metadata.name", "In", ("n",), field=True),),
    )


def test_an_empty_term_matches_no_node() -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    parsed = parse(pod(affinity=affinity))
    assert isinstance(parsed, PodManifest)
    assert parsed.template.affinity == ()


def test_tolerations_and_selector() -> None:
    spec: dict[str, Any] = {"tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v"}]}
    parsed = parse(pod(nodeSelector={"b": "2", "a": "1"}, **spec))
    assert isinstance(parsed, PodManifest)
    assert parsed.template.tolerations == (
        Toleration("", "Exists", "", ""),
        Toleration("k", "Equal", "v", ""),
    )
    assert parsed.template.selector == (("a", "1"), ("b", "2"))


def test_pods_of_equal_specs_share_one_template() -> None:
    a, b = parse(pod("a")), parse(pod("b"))
    assert isinstance(a, PodManifest)
    assert isinstance(b, PodManifest)
    assert a.template is b.template


# --- the other kinds --------------------------------------------------------------------------


def test_annotations_of_a_pod() -> None:
    obj = pod("p", group="g")
    obj["metadata"]["labels"] = {"volcano.sh/task-spec": "w"}
    obj["metadata"]["annotations"] |= {
        "volcano.sh/task-priority": "7",
        "quadrant.dev/duration": "1.5",
        "anything/else": "is fine",
    }
    parsed = parse(obj)
    assert isinstance(parsed, PodManifest)
    assert (parsed.group, parsed.role, parsed.task_priority, parsed.duration) == ("g", "w", 7, 1.5)


@pytest.mark.parametrize("letter", ["x", "\u20ac"])
def test_annotations_are_bounded_in_all(letter: str) -> None:
    """Keys and values together, in bytes: 256 KiB."""
    size = len(letter.encode())
    room = (256 << 10) - len("ab")
    texts = {"a": letter * (room // size), "b": "y" * (room % size)}
    for make in (pod, node, queue, job):
        obj = make("o")
        obj["metadata"]["annotations"] = dict(texts)
        assert not isinstance(parse(obj), Refusal)
        obj["metadata"]["annotations"]["b"] += "z"
        refusal = parse(obj)
        assert isinstance(refusal, Refusal)
        assert refusal.field == "metadata.annotations"
        assert refusal.message.startswith("too long: 262145 bytes")
    obj = pod("o")
    obj["metadata"]["annotations"] = {"a": [letter * (256 << 10)]}
    assert isinstance(parse(obj), Refusal), "what is no text counts too"


def test_node() -> None:
    parsed = parse(node("n", labels={"a": "b"}, taints=[{"key": "k", "effect": "NoExecute"}]))
    assert isinstance(parsed, NodeManifest)
    assert dict(parsed.allocatable) == {"cpu": 8000, "memory": 32 * GI, "pods": 110}
    assert parsed.taints == (Taint("k", "", "NoExecute"),)


def test_a_node_falls_back_to_its_capacity() -> None:
    obj = node()
    obj["status"] = {"capacity": {"cpu": "1"}}
    parsed = parse(obj)
    assert isinstance(parsed, NodeManifest)
    assert parsed.allocatable == (("cpu", 1000),)
    assert "takes no pods" in parsed.notices[0]


def test_pod_group() -> None:
    parsed = parse(pod_group(minMember=3, minTaskMember={"w": 2, "m": 1}))
    assert isinstance(parsed, PodGroupManifest)
    assert parsed.role_minima == (("m", 1), ("w", 2))
    assert (parsed.minimum, parsed.queue) == (3, "default")


@pytest.mark.parametrize(
    ("tasks", "minimum"),
    [
        ([task(replicas=3)], 3),
        ([task("a", replicas=3, minAvailable=1), task("b", replicas=2)], 3),
        ([task(replicas=3, minAvailable=0), task("b")], 2),
    ],
)
def test_a_job_needs_the_sum_of_its_minima_unless_it_says_so(
    tasks: list[dict[str, Any]], minimum: int
) -> None:
    parsed = parse(job(tasks=tasks))
    assert isinstance(parsed, JobManifest)
    assert parsed.minimum == minimum
    manifest = parse(job(tasks=tasks, minAvailable=1))
    assert isinstance(manifest, JobManifest)
    assert manifest.minimum == 1


def test_priority_class_and_hyper_node() -> None:
    assert parse(priority_class(value=-5, globalDefault=True)) == PriorityClass("high", -5, True)
    assert parse(hyper_node("h", "a", "b")) == HyperNode.of("h", 1, ("a", "b"))


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_null_counts_as_absent(obj: dict[str, Any]) -> None:
    assert not isinstance(parse(obj), Refusal)
    nulls = dict.fromkeys(("labels", "uid", "creationTimestamp", "annotations"))
    if obj["kind"] not in ("Node", "Pod"):
        assert parse({**obj, "metadata": obj["metadata"] | nulls}) == parse(obj)


# --- refusals ---------------------------------------------------------------------------------

MISTAKES = [
    (pod(containers=[container("-1")]), "spec.containers[0].resources.requests.cpu", "0 or more"),
    (pod(containers=[container("1x")]), "spec.containers[0].resources.requests.cpu", "write a"),
    (
        pod(containers=[container("1", "8Pi")]),
        "spec.containers[0].resources.requests.memory",
        "below",
    ),
    (
        pod(containers=[{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
        "spec.containers[0].resources.requests.cpu",
        "lower it or raise the limit",
    ),
    (
        pod(containers=[{"resources": {"requests": {"pods": "1"}}}]),
        "spec.containers[0].resources.requests.pods",
        "leave it out",
    ),
    (pod(containers=[{"imag": "x"}]), "spec.containers[0].imag", "did you mean image?"),
    (pod(nodeSelectr={"a": "b"}), "spec.nodeSelectr", "did you mean nodeSelector?"),
    (pod(nodeSelector={"a b": "c"}), "spec.nodeSelector.a b", "write [domain/]name"),
    (pod(nodeSelector={"a": 5}), "spec.nodeSelector.a", "text"),
    (pod(resources={"requests": {"a/b": "1"}}), "spec.resources.requests.a/b", "in a container"),
    (pod(resources={"requests": {"cpu": "1m"}}), "spec.resources.requests.cpu", "less than its"),
    (
        pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        "write at least one term",
    ),
    (pod(tolerations=[{"key": "k", "operator": "Is"}]), "spec.tolerations[0].operator", "Exists"),
    (pod(priority="high"), "spec.priority", "whole number"),
    (pod("Upper"), "metadata.name", "small letters"),
    (pod("x" * 254), "metadata.name", "at most 253"),
    (pod("p\n"), "metadata.name", "at both ends"),
    (node("n", taints=[{"key": "k"}]), "spec.taints[0].effect", "NoExecute"),
    (node("n", unschedulable="yes"), "spec.unschedulable", "write true or false"),
    (node("n", labels={"a": "b c"}), "metadata.labels.a", "at most 63"),
    ({**node(), "status": {}}, "status.allocatable", "write at least cpu, memory and pods"),
    (
        {**node(), "status": {"allocatable": {"port/x": 1}}},
        "status.allocatable.port/x",
        "write [domain/]name",
    ),
    (queue(weight=-1), "spec.weight", "from 0 to 65535"),
    (queue(parent="q"), "spec.parent", "another queue"),
    (queue(state="Ajar"), "status.state", "write one of Open"),
    (pod_group(minMember=-1), "spec.minMember", "whole number from 0"),
    (pod_group(minTaskMember={"w": "2"}), "spec.minTaskMember.w", "whole number"),
    (job(tasks=[]), "spec.tasks", "write from 1"),
    (job(minAvailable=3), "spec.minAvailable", "lower it"),
    (
        job(policies=[{"exitCode": 0, "action": "RestartJob"}]),
        "spec.policies[0].exitCode",
        "from 1 to 255",
    ),
    (job(plugins={"svg": ["x"]}), "spec.plugins.svg", "write one of env, hcclrank"),
    (job(plugins={"svc": "x"}), "spec.plugins.svc", "not a list"),
    (job(tasks=[task("w", maxRetry=-1)]), "spec.tasks[0].maxRetry", "from 0"),
    (job(minSuccess=3), "spec.minSuccess", "lower it"),
    (job(runningEstimate="long"), "spec.runningEstimate", "not a duration"),
    (job(volumes=[{"mountPath": "/a"}]), "spec.volumes[0].volumeClaimName", "missing"),
    (job(volumes=[{"volumeClaimName": "a"}]), "spec.volumes[0].mountPath", "missing"),
    (
        job(tasks=[task("w", dependsOn={"name": ["x"]})]),
        "spec.tasks[0].dependsOn.name",
        "no task has this name",
    ),
    (job(tasks=[task("a"), task("a")]), "spec.tasks", "give each its own"),
    (job(tasks=[task("a", replicas=10**7)]), "spec.tasks[0].replicas", "1000000"),
    (job(tasks=[{"name": "a"}]), "spec.tasks[0].template", "required"),
    (job(tasks=[task("a", minAvailable=3)]), "spec.tasks[0].minAvailable", "lower it"),
    (priority_class(value=None), "value", "write a whole number"),
    (priority_class(value=2**40), "value", "whole number"),
    (
        {**hyper_node(), "spec": {"tier": 1, "members": [{"type": "Node", "selector": {}}]}},
        "spec.members[0].selector",
        "wants exactly one of exactMatch, regexMatch, labelMatch",
    ),
    ({**pod(), "apiVersion": "v2"}, "apiVersion", "write v1"),
    ({**pod(), "kind": "Deployment"}, "kind", "write one of CSINode, CompositePodGroup, ConfigMap"),
    ({**pod(), "extra": 1}, "extra", "leave it out"),
    ({**pod(), "metadata": {"generateName": "x-"}}, "metadata.name", "required"),
    ({**pod(), "metadata": None}, "metadata", "name"),
    ({**pod(), "spec": None}, "spec", "containers"),
]


@pytest.mark.parametrize(
    ("obj", "field", "remedy"), MISTAKES, ids=[f"{o['kind']}-{f}" for o, f, _ in MISTAKES]
)
def test_a_mistake_is_named_with_its_path_and_a_remedy(
    obj: dict[str, Any], field: str, remedy: str
) -> None:
    refusal = parse(obj)
    assert isinstance(refusal, Refusal), refusal
    assert refusal.field == field
    assert remedy in refusal.message
    assert len(refusal.value) <= 80


@pytest.mark.parametrize("item", [None, 5, "x", [], {}, {"kind": 3}, {"kind": []}])
def test_a_value_that_is_not_an_object_is_refused(item: object) -> None:
    assert isinstance(parse(item), Refusal)


def test_a_spec_that_is_nested_too_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"env": [deep]}
    refusal = parse(pod(containers=[deep]))
    assert isinstance(refusal, Refusal)
    assert "nested too deep" in refusal.message
