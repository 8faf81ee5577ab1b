"""KAI's queues, PodGroups and topologies in intake, under a policy of Volcano's."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from coordinator.intake.queue_of import is_group, queue_of
from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
from shared.model.model import Job
from shared.policy.model import Dialect
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE
from tests.builders.objects import kai_group, kai_queue, kube_object, pod, pod_group
from tests.builders.objects import queue as volcano_queue

NOW = 1000.0


TOPOLOGY = kube_object(
    "kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "rack"}]}
)


def quota(of: int) -> dict[str, Any]:
    return {"quota": of, "overQuotaWeight": 1, "limit": -1}


def admitted(intake: Intake, *items: dict[str, Any], now: float = NOW) -> list[str]:
    """The notices of a list that is accepted whole."""
    result = intake.admit(items, now)
    assert not result.refused, result.refused
    return [notice.message for notice in result.notices]


def test_they_are_stored_and_not_looked_at() -> None:
    intake = Intake()
    notices = admitted(intake, kai_queue("team"), kai_group("g", minMember=2), TOPOLOGY)
    assert all(notice.startswith("kept and not looked at") for notice in notices)
    assert "the policy in force is Volcano's; it counts under one of KAI's" in notices[0]
    kinds = {
        "kaiqueue/team": KaiQueue,
        "kaipodgroup/ns/g": KaiPodGroup,
        "kaitopology/t": KaiTopology,
    }
    assert {key: type(value) for key, value in intake.registry.objects.items()} == kinds
    assert "team" not in intake.registry.queues
    assert not intake.registry.jobs


def test_they_do_not_meet_volcanos_of_the_same_name() -> None:
    intake = Intake()
    admitted(intake, kai_queue("team"), volcano_queue("team"))
    assert {Key("Queue", "", "team"), Key("KaiQueue", "", "team")} <= intake.documents.keys()
    assert intake.remove("KaiQueue", "", "team", NOW).accepted == 1
    assert "team" in intake.registry.queues
    assert "kaiqueue/team" not in intake.registry.objects


def test_submitted_again_nothing_changes_and_its_age_stays() -> None:
    intake = Intake()
    admitted(intake, kai_queue("team"))
    again = intake.admit([kai_queue("team")], NOW + 5)
    assert (again.unchanged, again.objects) == (1, [])
    changed = intake.admit([kai_queue("team", gpu=quota(3))], NOW + 5)
    (queue,) = changed.objects
    assert isinstance(queue, KaiQueue)
    assert (queue.created, queue.gpu.quota) == (NOW, 3000)


def test_a_parent_may_come_later_but_not_above_itself() -> None:
    intake = Intake()
    admitted(intake, kai_queue("a", "b"), kai_queue("b", "c"))
    refused = intake.admit([kai_queue("c", "a")], NOW).refused
    assert [(r.kind, r.field) for r in refused] == [("Queue", "spec.parentQueue")]
    assert "above itself" in refused[0].message


def test_a_queue_with_children_is_not_deleted() -> None:
    intake = Intake()
    admitted(intake, kai_queue("top"), kai_queue("low", "top"))
    (refusal,) = intake.remove("KaiQueue", "", "top", NOW).refused
    assert (refusal.reason, "queue low is below it" in refusal.message) == ("Conflict", True)
    intake.remove("KaiQueue", "", "low", NOW)
    assert intake.remove("KaiQueue", "", "top", NOW).accepted == 1


def test_more_quota_than_the_parent_has_is_a_warning() -> None:
    intake = Intake()
    admitted(intake, kai_queue("top", gpu=quota(4)), kai_queue("a", "top", gpu=quota(3)))
    notices = admitted(intake, kai_queue("b", "top", gpu=quota(2)))
    assert any("have more quota together than it has itself" in notice for notice in notices)


def test_a_wrong_version_names_that_of_its_group() -> None:
    intake = Intake()
    (refusal,) = intake.admit([kai_queue("a") | {"apiVersion": "scheduling.run.ai/v1"}], 1).refused
    assert refusal.message == "unknown; write scheduling.run.ai/v2"
    (refusal,) = intake.admit([kai_queue("a") | {"apiVersion": "v9"}], 1).refused
    assert "scheduling.volcano.sh/v1beta1 or scheduling.run.ai/v2" in refusal.message


# --- under a policy of KAI's ----------------------------------------------------------------------


def kai_intake(*items: dict[str, Any]) -> Intake:
    intake = Intake(dialect=Dialect.KAI)
    admitted(intake, *items)
    return intake


def member(name: str, *, group: str = "", queue: str = "", sub: str = "") -> dict[str, Any]:
    pod_item = pod(name, group="volcanos")
    labels = {"kai.scheduler/queue": queue, "kai.scheduler/subgroup-name": sub}
    pod_item["metadata"]["labels"] = {key: value for key, value in labels.items() if value}
    if group:
        pod_item["metadata"]["annotations"]["pod-group-name"] = group
    return pod_item


def test_a_queue_is_one_of_the_engine_with_its_limits() -> None:
    limited = {"quota": 1, "overQuotaWeight": 1, "limit": 4}
    intake = kai_intake(kai_queue("low", "top", gpu=limited))
    assert not intake.registry.queues, "its parent is not there"
    admitted(intake, kai_queue("top"))
    top, low = (intake.registry.queues[name] for name in ("top", "low"))
    slot = intake.registry.slots.names.index
    bounds = ((slot(GPU_SHARE), 4000), (slot(NON_PREEMPTIBLE[2]), 1000))
    assert (low.parent, low.capability) == (top.qid, tuple(sorted(bounds)))
    assert low.deserved == ((slot("nvidia.com/gpu"), 1000),)
    assert top.capability == ()
    assert "default" not in intake.registry.queues


def charges(intake: Intake, job: Job) -> dict[str, int]:
    """Charges of the first role beside its requests, by name."""
    classes = {cid: cls for cls, cid in intake.registry.classes.items()}
    return {
        intake.registry.slots.names[slot]: amount
        for slot, amount in classes[job.roles[0].cid].charges
    }


PROTECTED = {"non-preemptible:cpu": 1000, "non-preemptible:memory": 2**30}


@pytest.mark.parametrize(
    ("spec", "protected"),
    [
        ({}, False),
        ({"priorityClassName": "build"}, True),
        ({"priorityClassName": "build", "preemptibility": "preemptible"}, False),
        ({"preemptibility": "non-preemptible"}, True),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_queues_charge_non_preemptible_pods_by_themselves(
    spec: dict[str, Any], *, protected: bool, late: bool
) -> None:
    """Whether the group comes before its pods or after them."""
    items = [kai_group("g", **spec), member("p", group="g")]
    intake = kai_intake(kai_queue("team"), *(items[::-1] if late else items))
    (job,) = intake.registry.jobs.values()
    assert charges(intake, job) == (PROTECTED if protected else {})
    again = intake.admit([member("p", group="g")], NOW)
    assert (again.refused, again.unchanged) == ([], 1)


def test_a_group_that_may_be_evicted_from_now_on_is_counted_otherwise() -> None:
    intake = kai_intake(kai_queue("team"), kai_group("g"), member("p", group="g"))
    for name, counts in (("build", PROTECTED), ("build", PROTECTED), ("train", {})):
        admitted(intake, kai_group("g", priorityClassName=name))
        (job,) = intake.registry.jobs.values()
        assert charges(intake, job) == counts
    assert job.spec > 2, "its open turns know it otherwise"


def test_pods_join_their_pod_sets() -> None:
    subs = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]
    members = [member("p0", group="g", sub="A"), member("p1", group="g", sub="b")]
    intake = kai_intake(kai_queue("team"), kai_group("g", subGroups=subs), *members)
    (job,) = intake.registry.jobs.values()
    assert (job.key, job.queue, job.priority) == ("ns/g", "team", 50)
    assert [(g.parent, g.minimum) for g in job.groups] == [(-1, 3), (0, 1), (0, 2)]
    assert [(role.name, role.group) for role in job.roles] == [("a", 1), ("b", 2)]


def test_submit_rights_are_checked_on_the_queue_that_kai_reads() -> None:
    names = kai_intake(kai_queue("team"), kai_group("g", "team")).registry
    assert queue_of(member("p", group="g", queue="other"), names) == "team"
    assert queue_of(member("p", queue="other"), names) == "other"
    assert queue_of(member("p"), names) == "default"
    assert is_group(kai_group("g"), names)
    assert not is_group(pod_group("g"), names)


def test_a_group_goes_with_its_pods() -> None:
    intake = kai_intake(kai_queue("team"), kai_group("g"), member("p", group="g"))
    (jid,) = intake.registry.jobs
    assert "team" in intake.remove("KaiQueue", "", "team", NOW).refused[0].name
    assert intake.remove("KaiPodGroup", "ns", "g", NOW).jobs_gone == [jid]
    intake.purge([jid], [])
    assert intake.documents.keys() == {Key("KaiQueue", "", "team")} | namespaces(intake)
    assert intake.remove("KaiQueue", "", "team", NOW).queues_gone == [0]


def namespaces(intake: Intake) -> set[Key]:
    return {key for key in intake.documents if key.kind == "Namespace"}
