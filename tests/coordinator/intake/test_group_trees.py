"""Trees of Kubernetes' own groups as intake takes them: in any order, as one job."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from coordinator.intake.admission.deletion import release_group
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.group_trees import MOST_GROUPS
from coordinator.intake.intake import Intake
from shared.errors import Refusal
from shared.manifests.kubernetes.groups import PARENT
from shared.manifests.parse import parse
from shared.model.groups import COMPOSITE, NATIVE
from shared.model.model import Job
from shared.policy.model import Dialect
from tests.builders.objects import composite_group, leaf_group, priority_class
from tests.builders.objects import pod as made_pod
from tests.coordinator.intake.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return kai_bench()


def kai_bench() -> Bench:
    bench = Bench()
    bench.intake = Intake(dialect=Dialect.KAI)
    return bench


def pod(name: str, group: str) -> dict[str, Any]:
    return made_pod(name, schedulingGroup={"podGroupName": group})


TREE = (
    composite_group("r", 2),
    composite_group("a", 1, parentCompositePodGroupName="r"),
    leaf_group("x", "a", 2),
    leaf_group("y", "r", 1),
)
PODS = (pod("x-0", "x"), pod("x-1", "x"), pod("y-0", "y"))


def settled(bench: Bench) -> Job:
    """The only job, once all pods have joined it."""
    jobs = bench.intake.registry.jobs
    bench.regroup(*[jid for jid, job in jobs.items() if job.kind == NATIVE])
    (job,) = jobs.values()
    return job


def shape(job: Job) -> Any:
    """What a job is, whatever came first."""
    names = ("", *(name for name, _ in job.role_minima))
    groups = {
        name: (names[group.parent] if name else None, group.minimum)
        for name, group in zip(names, job.groups, strict=True)
    }
    members = sorted((names[role.group], name) for role in job.roles for name in role.names)
    return job.kind, job.key, groups, job.refused, members


def test_a_tree_is_one_job_with_a_sub_group_for_each_group(bench: Bench) -> None:
    bench.take(*TREE, *PODS)
    (job,) = bench.intake.registry.jobs.values()
    assert (job.kind, job.key, job.refused) == (COMPOSITE, "ns/r", "")
    assert job.role_minima == (("compositepodgroup/a", 2), ("x", 2), ("y", 1))
    assert [(group.parent, group.minimum) for group in job.groups] == [
        (-1, 3),
        (0, 2),
        (1, 2),
        (0, 1),
    ]
    documents = bench.intake.registry.documents
    assert {d.jid for key, d in documents.items() if key.kind in (COMPOSITE, NATIVE, "Pod")} == {0}
    assert bench.take(*TREE, *PODS).jobs == [], "the same again"


@pytest.mark.parametrize("pods_first", [False, True])
@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_groups_and_pods_may_come_in_any_order(order: tuple[int, ...], pods_first: bool) -> None:
    whole, bench = kai_bench(), kai_bench()
    whole.take(*TREE, *PODS)
    items = [TREE[at] for at in order]
    for item in [*PODS, *items] if pods_first else [*items, *PODS]:
        bench.take(item)
    job = settled(bench)
    assert shape(job) == shape(settled(whole))
    documents = bench.intake.registry.documents
    assert {d.jid for key, d in documents.items() if key.kind != "Queue"} == {job.jid}
    assert bench.intake.registry.groups.keys() == whole.intake.registry.groups.keys()


def test_a_restart_and_a_list_that_is_taken_back_leave_the_tree_as_it_is(bench: Bench) -> None:
    bench.take(*PODS, TREE[2], TREE[1])
    intake = bench.intake
    before = dict(intake.registry.jobs), dict(intake.registry.tree_nodes)
    intake.mark()
    intake.admit([TREE[0], TREE[3]], 2.0)
    intake.undo()
    assert (dict(intake.registry.jobs), dict(intake.registry.tree_nodes)) == before
    bench.take(TREE[0], TREE[3])
    settled(bench)
    again = Intake(dialect=Dialect.KAI)
    again.restore(bench.kept.snapshot)
    for name in ("jobs", "groups", "pods", "tree_nodes", "tree_children", "objects"):
        assert dict(getattr(again.registry, name)) == dict(getattr(intake.registry, name)), name


def refusal(bench: Bench) -> str:
    return next(job.refused for job in bench.intake.registry.jobs.values())


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ((TREE[2],), 'waiting for composite pod group "a" to appear'),
        (TREE[1:3], 'waiting for composite pod group "r" to appear'),
        (TREE[:3], 'waiting for composite pod group "r" tree to meet quorum'),
        (
            (
                *TREE,
                leaf_group("z", "r", 1, workloadRef={"workloadName": "v", "templateName": "t"}),
            ),
            'pod group workload does not match root workload, got: "v" ("z") and "w" ("r")',
        ),
        (
            (priority_class("high", 5), *TREE, leaf_group("z", "a", 1, priorityClassName="high")),
            "all pod groups in a hierarchy should have the same priority as the root pod group's "
            'priority, got 5 ("z") and 0 ("r")',
        ),
        (
            (*TREE, leaf_group("z", "a", 1, preemptionPolicy="Never")),
            "all pod groups in a hierarchy should have the same preemption policy, got Never "
            '("z") and PreemptLowerPriority',
        ),
        (
            (
                composite_group("a", 1, parentCompositePodGroupName="b"),
                composite_group("b", 1, parentCompositePodGroupName="a"),
                leaf_group("z", "a", 1),
            ),
            "cycle detected in the hierarchy: [CompositePodGroup/ns/a CompositePodGroup/ns/b "
            "NativePodGroup/ns/z]",
        ),
        (
            (
                composite_group("a", 1),
                composite_group("b", 1, parentCompositePodGroupName="a"),
                composite_group("c", 1, parentCompositePodGroupName="b"),
                composite_group("d", 1, parentCompositePodGroupName="c"),
                leaf_group("z", "d", 1),
            ),
            'hierarchy depth exceeds maximum allowed depth 4 at "d"',
        ),
    ],
)
def test_a_tree_that_is_not_whole_or_not_valid_says_so(
    items: tuple[Any, ...], text: str, bench: Bench
) -> None:
    bench.take(*items)
    assert refusal(bench) == text


def test_the_group_that_made_a_tree_invalid_may_go_again(bench: Bench) -> None:
    bench.take(*TREE, *PODS, leaf_group("z", "r", 1, preemptionPolicy="Never"))
    assert "same preemption policy" in refusal(bench)
    bench.remove("NativePodGroup", "z")
    bench.kept.store(release_group(bench.intake.registry, Key(NATIVE, "ns", "z"), 9.0))
    assert refusal(bench) == ""


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        (composite_group("r", 1), "spec.schedulingPolicy"),
        (composite_group("r"), "spec.schedulingPolicy"),
        (
            composite_group("r", 2, parentCompositePodGroupName="q"),
            "spec.parentCompositePodGroupName",
        ),
        (composite_group("r", 2, disruptionMode={"all": {}}), "spec.disruptionMode"),
        (leaf_group("y", "a", 1), f"spec.{PARENT}"),
    ],
)
def test_what_a_group_is_does_not_change(changed: Any, field: str, bench: Bench) -> None:
    bench.take(*TREE)
    (refused,) = bench.admit(changed).refused
    assert refused.field == field
    assert "field is immutable" in refused.message


def test_the_api_servers_defaults_are_written(bench: Bench) -> None:
    bench.take(composite_group("r", 2))
    written = bench.intake.registry.documents[Key(COMPOSITE, "ns", "r")].object()
    assert written["spec"]["disruptionMode"] == {"single": {}}
    assert (written["spec"]["priority"], written["spec"]["preemptionPolicy"]) == (
        0,
        "PreemptLowerPriority",
    )


@pytest.mark.parametrize(
    ("written", "field", "message"),
    [
        (composite_group("r", 0), "spec.schedulingPolicy.gang.minGroupCount", "missing"),
        (
            composite_group("r", schedulingPolicy={}),
            "spec.schedulingPolicy",
            "must specify one of: `basic`, `gang`",
        ),
        (composite_group("r", 1, workloadRef=None), "spec.workloadRef", "missing"),
        (leaf_group("x", "a", 1, workloadRef=None), "spec.workloadRef", "missing"),
    ],
)
def test_a_wrong_one_is_refused_by_field(written: Any, field: str, message: str) -> None:
    refused = parse(written)
    assert isinstance(refused, Refusal)
    assert refused.field == field
    assert message in refused.message


@pytest.mark.parametrize("downwards", [True, False])
def test_a_chain_of_parents_as_long_as_its_author_likes_waits_with_a_sentence(
    *, bench: Bench, downwards: bool
) -> None:
    """None of it is walked level by level: a chain of 900 exceeded the depth of Python's stack."""
    chain = [
        composite_group(f"c{i}", 1, **({PARENT: f"c{i - 1}"} if i else {})) for i in range(900)
    ]
    objects = [*chain, leaf_group("deep", "c899", 1), leaf_group("high", "c0", 1)]
    bench.take(*(objects if downwards else reversed(objects)))
    refused = {job.key: job.refused for job in bench.intake.registry.jobs.values()}
    assert refused["ns/deep"] == 'hierarchy depth exceeds maximum allowed depth 4 at "deep"'
    assert refused["ns/c0"] == 'hierarchy depth exceeds maximum allowed depth 4 at "c3"'


def test_a_tree_has_at_most_a_thousand_groups(bench: Bench) -> None:
    root = composite_group("r", 1)
    bench.take(root, *(leaf_group(f"x{i}", "r", 1) for i in range(MOST_GROUPS - 1)))
    (job,) = bench.intake.registry.jobs.values()
    assert (len(job.role_minima), job.refused) == (MOST_GROUPS - 1, "")
    bench.take(leaf_group("z", "r", 1))
    refused = {job.key: job.refused for job in bench.intake.registry.jobs.values()}
    sentence = 'more than 1,000 groups in the tree of "r"; split it'
    assert refused == {"ns/r": sentence, "ns/z": sentence}
