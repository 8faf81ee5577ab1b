"""Constraints of pods beyond amounts: other pods, spreading, volumes, devices, images, gates."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import Refusal
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import parse
from shared.manifests.volcano.objects import JobManifest
from shared.model.constraints import Constraints, PodTerm, Requirement, Spread
from tests.builders.objects import container, job, node, pod, pod_group, priority_class, task
from tests.coordinator.intake.bench import Bench
from tests.shared.manifests.pod_fields import VOLUMES

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": HOST, **more}


def anti(**more: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: [term(**more)]}}


def constraints_of(obj: dict[str, Any]) -> Constraints | None:
    parsed = parse(obj)
    assert isinstance(parsed, PodManifest), parsed
    return parsed.template.constraints


def labelled(obj: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


# --- other pods -------------------------------------------------------------------------------


def test_a_pod_that_asks_for_nothing_more_has_no_constraints() -> None:
    for obj in (pod(), pod(affinity={}), pod(volumes=[{"name": "v", "emptyDir": {}}])):
        assert constraints_of(obj) is None


def test_terms_of_all_four_sorts() -> None:
    selector = {"matchLabels": {"b": "2"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
    wish = {"weight": 7, "podAffinityTerm": term(labelSelector={}, namespaceSelector={})}
    sides = {
        "podAffinity": {REQUIRED: [term(labelSelector=selector)], PREFERRED: [wish]},
        "podAntiAffinity": {REQUIRED: [term(namespaces=["z", "a"])], PREFERRED: [wish]},
    }
    answer = constraints_of(pod(affinity=sides))
    assert answer is not None
    both = (Requirement("a", "Exists", ()), Requirement("b", "In", ("2",)))
    assert answer.pod_terms == (
        PodTerm(HOST, both),
        PodTerm(HOST, (), all_namespaces=True, weight=7),
        PodTerm(HOST, None, namespaces=("a", "z"), anti=True),
        PodTerm(HOST, (), all_namespaces=True, weight=7, anti=True),
    )
    assert not answer.flat


def test_namespaces_are_selected_by_name() -> None:
    name = "kubernetes.io/metadata.name"
    answer = constraints_of(pod(affinity=anti(namespaceSelector={"matchLabels": {name: "b"}})))
    assert answer is not None
    assert answer.pod_terms[0].namespaces == ("b",)


def test_label_keys_take_their_values_from_the_pod() -> None:
    """Pods of one spec and other labels ask for other things; keys they have not count for none."""
    keys = anti(labelSelector={}, matchLabelKeys=["app", "none"], mismatchLabelKeys=["tenant"])
    spread = {"maxSkew": 1, "topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["app"]}
    spec: dict[str, Any] = {"affinity": keys, "topologySpreadConstraints": [spread]}
    a, b = (constraints_of(labelled(pod(**spec), app=app, tenant="t")) for app in "ab")
    assert a is not None
    assert b is not None
    app = Requirement("app", "In", ("a",))
    assert a.pod_terms[0].selector == (app, Requirement("tenant", "NotIn", ("t",)))
    assert a.spreads[0].selector == (app,)
    assert a != b
    bare = constraints_of(pod(**spec))
    assert bare is not None
    assert bare.pod_terms[0].selector == ()
    same = [parse(labelled(pod(name, **spec), app="a", tenant="t")) for name in "pq"]
    assert len({p.template for p in same if isinstance(p, PodManifest)}) == 1


def test_spreads() -> None:
    hard = {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
    soft = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
    soft |= {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "labelSelector": {}}
    answer = constraints_of(pod(topologySpreadConstraints=[hard, soft]))
    assert answer is not None
    assert answer.spreads == (
        Spread("z", 2, True, None, 3),
        Spread("z", 1, False, (), 1, honor_affinity=False, honor_taints=True),
    )


def test_preferred_nodes() -> None:
    expression = {"key": "a", "operator": "In", "values": ["x"]}
    wishes = [
        {"weight": 5, "preference": {"matchExpressions": [expression]}},
        {"weight": 1, "preference": {}},
    ]
    answer = constraints_of(pod(affinity={"nodeAffinity": {PREFERRED: wishes}}))
    assert answer is not None
    assert answer.preferred_nodes == ((5, (Requirement("a", "In", ("x",)),)),)


def test_volumes_and_claims() -> None:
    spec: dict[str, Any] = {
        "volumes": [
            {"name": "b", "persistentVolumeClaim": {"claimName": "z"}},
            {"name": "a", "persistentVolumeClaim": {"claimName": "a", "readOnly": True}},
        ],
        "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "c"},
            {"name": "own", "resourceClaimTemplateName": "t"},
        ],
        "containers": [container() | {"resources": {"claims": [{"name": "gpu", "request": "r"}]}}],
    }
    assert constraints_of(pod(**spec)) == Constraints(
        volumes=("a", "z"), claims=("c",), claim_templates=("t",)
    )


def test_claims_made_from_templates_are_named_once_they_are_there() -> None:
    obj = pod(resourceClaims=[{"name": "own", "resourceClaimTemplateName": "t"}])
    obj["status"] = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-x"}]}
    assert constraints_of(obj) == Constraints(claims=("p-own-x",))
    obj["status"] = {"resourceClaimStatuses": [{"name": "own"}]}
    assert constraints_of(obj) == Constraints(claim_templates=("t",))


MISTAKES = [
    ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, "[0].topologyKey", "missing"),
    ({"affinity": {"podAffinity": {PREFERRED: [{"podAffinityTerm": term()}]}}}, "weight", "1 to"),
    (
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": term()}]}}},
        "weight",
        "from 1 to 100",
    ),
    (
        {"affinity": anti(namespaceSelector={"matchLabels": {"team": "a"}})},
        "namespaceSelector",
        "kubernetes.io/metadata.name",
    ),
    ({"affinity": anti(namespaces=["A"])}, "namespaces[0]", "small letters"),
    ({"affinity": anti(matchLabelKeys=["a"])}, "affinity", "write a labelSelector"),
    (
        {"affinity": anti(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]})},
        "matchExpressions[0].operator",
        "In, NotIn",
    ),
    ({"topologySpreadConstraints": [{"topologyKey": "z"}]}, "maxSkew", "missing"),
    ({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0}]}, "maxSkew", "from 1"),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologyKey", "missing"),
    (
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1}]}}},
        "[0].preference",
        "required",
    ),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "claimName", "missing"),
    ({"volumes": [{"name": "v", "thought": {"a": 1}}]}, "volumes[0].thought", "not in this"),
    ({"resourceClaims": [{"name": "x"}]}, "resourceClaims[0]", "wants exactly one"),
    ({"preemptionPolicy": "Maybe"}, "spec.preemptionPolicy", "write one of"),
]


@pytest.mark.parametrize("kind", VOLUMES)
def test_every_kind_of_volume_is_taken(kind: str) -> None:
    """Volcano's and KAI's schedulers place pods with any; kubelets mount them."""
    taken = parse(pod(volumes=[{"name": "v", kind: VOLUMES[kind]}]))
    assert not isinstance(taken, Refusal), taken


@pytest.mark.parametrize(("spec", "field", "remedy"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistakes_are_named(spec: dict[str, Any], field: str, remedy: str) -> None:
    refusal = parse(pod(**spec))
    assert isinstance(refusal, Refusal), refusal
    assert refusal.field.endswith(field)
    assert remedy in refusal.message


# --- classes ----------------------------------------------------------------------------------


def test_the_pod_or_else_its_priority_class_decides_who_evicts(bench: Bench) -> None:
    """The pod's own field decides, or else its priority class, which cannot change."""
    bench.take(priority_class("meek", preemptionPolicy="Never"))
    bench.take(
        pod("a"),
        pod("b", preemptionPolicy="Never"),
        pod("c", priorityClassName="meek"),
        pod("d", priorityClassName="meek", preemptionPolicy="PreemptLowerPriority"),
    )
    by_number = {cid: cls for cls, cid in bench.intake.registry.classes.items()}
    results = [by_number[job.roles[0].cid].constraints for job in bench.jobs.values()]
    assert results == [None, Constraints(preempts=False), Constraints(preempts=False), None]
    assert [job.preempts for job in bench.jobs.values()] == [True, True, False, False]
    (refusal,) = bench.admit(priority_class("meek")).refused
    assert refusal.field == "preemptionPolicy"


def test_images_tell_classes_apart_only_where_they_are_asked_for() -> None:
    image = pod("p", containers=[container(image="a/b"), container(image="c@sha256:1")])
    has = node("n")
    has["status"]["images"] = [{"names": ["a/b", "a/b@sha256:2"], "sizeBytes": 7}]
    plain, watching = Bench(), Bench(observe=True)
    for bench in (plain, watching):
        bench.take(has, image)
    (cls,) = plain.intake.registry.classes
    assert cls.constraints is None
    assert plain.intake.registry.nodes["n"].images == ()
    (cls,) = watching.intake.registry.classes
    assert cls.constraints == Constraints(images=("a/b:latest", "c@sha256:1"))
    assert cls.flat
    images = watching.intake.registry.nodes["n"].images
    assert images == (("a/b:latest", 7), ("a/b@sha256:2", 7))


# --- roles ------------------------------------------------------------------------------------


def test_members_that_differ_in_labels_or_gates_are_roles_of_their_own(bench: Bench) -> None:
    bench.take(pod_group("g", minMember=1))
    bench.take(
        labelled(pod("a-0", group="g", role="w"), x="1"),
        labelled(pod("a-1", group="g", role="w"), x="1"),
        labelled(pod("b-0", group="g", role="w"), x="2"),
        labelled(pod("c-0", group="g", role="w", schedulingGates=[{"name": "mine"}]), x="2"),
    )
    roles = bench.job("g").roles
    assert [(r.names, r.labels, r.gated) for r in roles] == [
        (("a-0", "a-1"), (("x", "1"),), False),
        (("b-0",), (("x", "2"),), False),
        (("c-0",), (("x", "2"),), True),
    ]
    assert [r.first for r in roles] == [0, 2, 3]


def test_labels_that_each_pod_has_for_itself_make_no_roles(bench: Bench) -> None:
    bench.take(pod_group("g"))
    index = "volcano.sh/task-index"
    bench.take(*(labelled(pod(f"a-{i}", group="g"), **{index: str(i), "x": "1"}) for i in range(5)))
    (role,) = bench.job("g").roles
    assert (role.count, role.labels) == (5, (("x", "1"),))


def test_annotations_are_kept_where_somebody_reads_them(bench: Bench) -> None:
    obj = pod("p")
    obj["metadata"]["annotations"] = {
        "volcano.sh/preemptable": "true",
        "scheduling.volcano.sh/queue-allocation-gate": "true",
        "volcano.sh/task-spec": "w",
        "example.com/other": "x",
    }
    bench.take(obj)
    role = bench.job("p").roles[0]
    assert role.annotations == bench.job("p").annotations
    assert role.annotations == (
        ("scheduling.volcano.sh/queue-allocation-gate", "true"),
        ("volcano.sh/preemptable", "true"),
    )
    obj["metadata"]["annotations"]["volcano.sh/preemptable"] = True
    (refusal,) = bench.admit(obj).refused
    assert refusal.field == "metadata.annotations.volcano.sh/preemptable"


def test_a_gate_may_go_and_none_may_come(bench: Bench) -> None:
    """Labels and annotations may change; the index of the pod stays."""
    gate = [{"name": "scheduling.volcano.sh/queue-allocation-gate"}]
    bench.take(pod_group("g"))
    names = [f"a-{i}" for i in range(3)]
    bench.take(*(pod(name, group="g", schedulingGates=gate) for name in names))
    before = bench.job("g")
    assert [(r.gated, r.own_gate) for r in before.roles] == [(True, True)]
    admission = bench.take(pod("a-1", group="g"))
    assert [job.name for job in admission.jobs] == ["g"]
    after = bench.job("g")
    assert [(r.first, r.names, r.gated) for r in after.roles] == [
        (0, ("a-0",), True),
        (1, ("a-1",), False),
        (2, ("a-2",), True),
    ]
    assert after.spec > before.spec
    bench.take(pod("a-0", group="g"), pod("a-2", group="g"))
    assert [r.names for r in bench.job("g").roles] == [("a-0", "a-1", "a-2")], "one role again"
    (refusal,) = bench.admit(pod("a-1", group="g", schedulingGates=gate)).refused
    assert refusal.field == "spec.schedulingGates"
    assert not bench.take(pod("a-1", group="g")).jobs


def test_a_label_of_a_lone_pod_may_change(bench: Bench) -> None:
    bench.take(pod("p"))
    bench.take(labelled(pod("p"), app="a"))
    assert bench.job("p").roles[0].labels == (("app", "a"),)
    assert not bench.take(labelled(pod("p"), app="a")).jobs
    assert bench.admit(pod("p", nodeSelector={"a": "b"})).refused


# --- Jobs -------------------------------------------------------------------------------------


def test_a_partitioned_task_is_several_roles(bench: Bench) -> None:
    policy: dict[str, Any] = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": 1}
    policy |= {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    job_item = job(
        "j", tasks=[task("w", replicas=6, partitionPolicy=policy), task("m", replicas=1)]
    )
    bench.take(job_item)
    admitted_job = bench.job("j")
    assert [(r.name, r.first, r.count, r.start) for r in admitted_job.roles] == [
        ("w", 0, 3, 0),
        ("w", 3, 3, 3),
        ("m", 6, 1, 0),
    ]
    assert [admitted_job.pod_name(tix) for tix in (0, 3, 5, 6)] == [
        "j-w-0",
        "j-w-3",
        "j-w-5",
        "j-m-0",
    ]
    (sub,) = admitted_job.sub_groups
    assert (sub.name, sub.size, sub.minimum, sub.match_label_keys) == (
        "w",
        3,
        1,
        ("volcano.sh/partition-id",),
    )
    assert [dict(r.labels).get("volcano.sh/partition-id") for r in admitted_job.roles] == [
        "0",
        "1",
        None,
    ]
    assert not bench.take(job_item).jobs, "the same again"
    assert bench.admit(pod("j-w-5")).refused, "the name of one of its pods"
    bench.take(pod("j-w-6"))


def test_a_partition_must_be_whole() -> None:
    for policy, field in (
        ({"totalPartitions": 2, "partitionSize": 2}, "totalPartitions"),
        ({"totalPartitions": 3, "partitionSize": 1, "minPartitions": 4}, "minPartitions"),
    ):
        refusal = parse(job(tasks=[task("w", replicas=3, partitionPolicy=policy)]))
        assert isinstance(refusal, Refusal)
        assert refusal.field == f"spec.tasks[0].partitionPolicy.{field}"


def test_pods_of_a_job_have_the_labels_that_volcano_gives_them(bench: Bench) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container()]}}
    bench.take(job("j", tasks=[task("w", template=template, topologyPolicy="restricted")]))
    role = bench.job("j").roles[0]
    assert dict(role.labels) == {
        "app": "a",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-spec": "w",
    }
    assert role.annotations == (("volcano.sh/numa-topology-policy", "restricted"),)
    parsed = parse(job("j"))
    assert isinstance(parsed, JobManifest)
    assert parsed.roles[0].labels == ()
