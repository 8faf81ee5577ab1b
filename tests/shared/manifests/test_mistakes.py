"""Every mistake of an object is told at once; none that is not the user's; the remedies work."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.change.refusals import of_refusal
from coordinator.intake.documents.kinds import JOB
from shared.errors import Refusal, nearest
from shared.manifests import mistakes
from shared.manifests.parse import parse
from tests.builders.objects import kube_object

Item = dict[str, Any]


def container(**fields: Any) -> Item:
    return {"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}} | fields


def role(name: str, replicas: int) -> Item:
    template = {"spec": {"containers": [container()]}}
    return {"name": name, "replicas": replicas, "template": template}


def good() -> Item:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"app": "a"}},
        "spec": {
            "minAvailable": 5,
            "queue": "default",
            "tasks": [role("ps", 2), role("worker", 3)],
            "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        },
    }


def put(path: str, value: Any) -> Callable[[Item], None]:
    *way, last = (step.replace("~", "/") for step in path.split("/"))

    def spoil(item: Item) -> None:
        at: Any = item
        for step in way:
            at = at[int(step) if step.isdigit() else step]
        at[last] = value

    return spoil


POD = "spec.tasks[0].template.spec"
SPOILS: dict[str, Callable[[Item], None]] = {
    "metadata.labels.app": put("metadata/labels/app", "no label!"),
    "spec.minAvailabel": put("spec/minAvailabel", 3),
    "spec.queue": put("spec/queue", 7),
    "spec.tasks[0].replicas": put("spec/tasks/0/replicas", "two"),
    "spec.tasks[1].replicass": put("spec/tasks/1/replicass", 3),
    "spec.tasks[1].name": put("spec/tasks/1/name", "Worker!"),
    "spec.policies[0].event": put("spec/policies/0/event", "PodFaild"),
    f"{POD}.tolerationss": put("spec/tasks/0/template/spec/tolerationss", []),
    f"{POD}.hostIPC": put("spec/tasks/0/template/spec/hostIPC", 5),
    f"{POD}.hostname": put("spec/tasks/0/template/spec/hostname", 5),
    f"{POD}.containers[0].resources.requests.nvidia.com/gpu": put(
        "spec/tasks/0/template/spec/containers/0/resources/requests/nvidia.com~gpu", "x"
    ),
}
"""Field -> what makes it wrong, and nothing else."""


def fields_of(refusal: object) -> set[str]:
    assert isinstance(refusal, Refusal), refusal
    return {refusal.field, *(mistake.field for mistake in refusal.more)}


def test_the_object_that_is_spoilt_is_good() -> None:
    assert not isinstance(parse(good()), Refusal)


@given(chosen=st.sets(st.sampled_from(sorted(SPOILS)), min_size=1))
def test_all_mistakes_are_told_and_nothing_else(chosen: set[str]) -> None:
    item = good()
    for field in chosen:
        SPOILS[field](item)
    before = copy.deepcopy(item)
    assert fields_of(parse(item)) == chosen
    assert item == before


def test_a_sum_is_not_blamed_for_another_fields_mistake() -> None:
    """Without its replicas, a task counts as one: the minimum of 5 is the user's all the same."""
    item = good()
    SPOILS["spec.tasks[0].replicas"](item)
    assert fields_of(parse(item)) == {"spec.tasks[0].replicas"}
    item = good()
    item["spec"] |= {"minAvailable": 6, "unknown": 1}
    assert fields_of(parse(item)) == {"spec.unknown", "spec.minAvailable"}


def test_missing_and_invalid_fields_are_reported_together() -> None:
    item = good()
    del item["spec"]["tasks"][0]["template"], item["metadata"]["name"]
    item["spec"]["tasks"][1]["replicas"] = -1
    assert fields_of(parse(item)) == {
        "metadata.name",
        "spec.tasks[0].template",
        "spec.tasks[1].replicas",
    }


def test_the_nearest_name_is_told() -> None:
    item = good()
    item["spec"]["minAvailabel"] = item["spec"].pop("minAvailable")
    item["spec"]["policies"][0]["action"] = "restartjob"
    refusal = parse(item)
    assert isinstance(refusal, Refusal)
    text = str(refusal)
    assert "spec.minAvailabel (got 5): unknown field; did you mean minAvailable?" in text
    assert "spec.policies[0].action (got 'restartjob'): unknown; did you mean RestartJob?" in text
    kind = parse(good() | {"kind": "Jobb"})
    assert isinstance(kind, Refusal) and "did you mean Job?" in kind.message
    assert nearest("x" * 1000, ["x"]) == nearest("nothing", ["near", "it"]) == ""


def test_the_remedy_for_a_job_of_kubernetes_works() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    item: Item = kube_object(
        "batch/v1", "Job", "train", spec={"parallelism": 3, "backoffLimit": 2, "template": template}
    )
    refusal = parse(item)
    assert isinstance(refusal, Refusal)
    assert "in spec.tasks a list with one item of replicas" in refusal.message
    others = {"spec.parallelism", "spec.backoffLimit", "spec.template"}
    assert fields_of(refusal) >= {"apiVersion"} | others
    spec = item["spec"]
    tasks = [{"replicas": spec["parallelism"], "template": spec["template"]}]
    remedied = item | {"apiVersion": "batch.volcano.sh/v1alpha1", "spec": {"tasks": tasks}}
    assert not isinstance(parse(remedied), Refusal)


def test_another_version_is_all_that_is_wrong_where_the_rest_is_right() -> None:
    refusal = parse(good() | {"apiVersion": "batch.volcano.sh/v1beta1"})
    assert isinstance(refusal, Refusal)
    assert (refusal.message, refusal.more) == ("unknown; write batch.volcano.sh/v1alpha1", ())


def test_the_number_of_reported_mistakes_is_bounded_and_a_large_object_is_read_once() -> None:
    item = good()
    item["spec"] |= {f"odd{number}": number for number in range(50)}
    refusal = parse(item)
    assert isinstance(refusal, Refusal) and len(refusal.more) == mistakes.MOST
    item = good()
    item["spec"]["tasks"] = [role(f"r{number}", 1) for number in range(500)]
    item["spec"] |= {"odd": 1, "odder": 2}
    refusal = parse(item)
    assert isinstance(refusal, Refusal) and refusal.more == ()


def test_kubectl_is_told_each_as_a_cause() -> None:
    item = good()
    for field in ("spec.queue", "spec.minAvailabel"):
        SPOILS[field](item)
    refusal = parse(item)
    assert isinstance(refusal, Refusal)
    problem = of_refusal(JOB, "train", refusal)
    assert {cause.field for cause in problem.causes} == {"spec.queue", "spec.minAvailabel"}
