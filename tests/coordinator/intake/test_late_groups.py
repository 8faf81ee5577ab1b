"""Pods that are named a group after they were admitted, and what is stored of their move."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from coordinator.intake.admission.pods import GROUP_AFTER_BINDING
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import GROUP_WAIT_SECONDS, Intake
from shared.ledger.entries.intake_batch import DropJob, PurgeJob
from shared.manifests.fields.metadata import group_deadline, late_group
from tests.builders.objects import container, pod, pod_group, queue
from tests.coordinator.intake.bench import BEST_EFFORT, Bench, members, same, state


def test_the_move_ends_the_job_of_one_and_adds_a_member(bench: Bench) -> None:
    bench.take(queue("q"), pod_group("g", minMember=2, queue="q"), pod("m", group="g"), pod("p"))
    (alone,) = (job for job in bench.intake.registry.jobs.values() if job.kind == "Pod")
    (named,) = bench.take(pod("p", group="g", role="w")).jobs
    assert (named.jid, named.spec, late_group(named.annotations)) == (alone.jid, 1, "g")
    assert bench.take(pod("p", group="g", role="w")).jobs == [], "the same again"

    moved = bench.regroup(alone.jid)
    (gang,) = moved.jobs
    assert members(gang) == ["m", "p"]
    assert (gang.queue, gang.roles[-1].name) == ("q", "w")
    assert moved.ops[:2] == [DropJob(alone.jid), PurgeJob(alone.jid)]
    assert (moved.jobs_gone, moved.jobs_purged) == ([alone.jid], [alone.jid])
    assert [(d.key, d.jid) for d in moved.documents] == [(Key("Pod", "ns", "p"), gang.jid)]
    assert moved.documents_gone == []
    assert bench.take(pod("p", group="g", role="w")).unchanged == 1
    assert same(state(bench.restored()), state(bench.intake))


def test_a_group_that_is_taken_away_again_leaves_the_job_as_it_was(bench: Bench) -> None:
    (before,) = bench.take(pod("p")).jobs
    bench.take(pod("p", group="g"))
    (after,) = bench.take(pod("p")).jobs
    assert (after.annotations, after.roles) == (before.annotations, before.roles)
    assert bench.regroup(before.jid).jobs == []


def test_a_pod_waits_while_its_group_is_being_deleted(bench: Bench) -> None:
    bench.take(pod_group("g"), pod("m", group="g"))
    (alone,) = bench.take(pod("p")).jobs
    bench.remove("PodGroup", "g")
    bench.take(pod("p", group="g"))
    assert bench.regroup(alone.jid).documents == []
    bench.purge(*bench.intake.registry.leaving)
    (gang,) = bench.regroup(alone.jid).jobs
    assert (gang.dangling, members(gang)) == (True, ["p"])


def test_a_member_without_requests_counts_for_its_new_group(bench: Bench) -> None:
    (alone,) = bench.take(pod("p", **BEST_EFFORT)).jobs
    bench.take(pod("p", group="g", **BEST_EFFORT))
    moved = bench.regroup(alone.jid)
    (put,) = (op for op in moved.ops if hasattr(op, "groups"))
    assert [group.held for group in put.groups] == [1]


def test_a_pod_that_stays_its_own_job_forgets_the_group(bench: Bench) -> None:
    (alone,) = bench.take(pod("p")).jobs
    bench.take(pod("p", group="g"))
    (regrouped,) = bench.regroup(apart=[alone.jid]).jobs
    assert (regrouped.jid, regrouped.kind, late_group(regrouped.annotations)) == (
        alone.jid,
        "Pod",
        "",
    )
    assert regrouped.roles == alone.roles


@pytest.mark.parametrize("watched", [False, True])
def test_a_bound_pod_joins_no_group(watched: bool) -> None:
    def item(**group: str) -> dict[str, Any]:
        new = pod("p", **group)
        new["metadata"] |= {"uid": "a"} if watched else {}
        return new

    intake = Intake(dated=watched)
    (alone,) = intake.admit([item()], 1.0).jobs
    intake.node_of = lambda namespace, name: "n"
    admission = intake.admit([item(group="g")], 2.0)
    assert intake.registry.jobs == {alone.jid: alone}
    if watched:
        assert [notice.message for notice in admission.notices] == [GROUP_AFTER_BINDING]
    else:
        (refusal,) = admission.refused
        assert "joins no group any more" in refusal.message


def test_a_pod_that_differs_beside_its_group_is_another(bench: Bench) -> None:
    bench.take(pod("p"))
    (refusal,) = bench.admit(pod("p", group="g", containers=[container("2")])).refused
    assert "another pod has this name" in refusal.message


def test_naming_an_absent_group_needs_the_right_to_plant() -> None:
    intake = Intake()
    intake.admit([pod("p")], 1.0)
    (refusal,) = intake.admit([pod("p", group="g")], 2.0, planting=False).refused
    assert refusal.reason == "Forbidden"


def watched(name: str, created: float, **metadata: Any) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = pod(name, **metadata)
    item["metadata"] |= {"uid": name, "creationTimestamp": stamp}
    return item


def owned(item: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}
    return item | {"metadata": item["metadata"] | {"ownerReferences": [owner]}}


def test_a_new_pod_waits_for_its_group_where_a_controller_names_groups() -> None:
    intake = Intake(dated=True, group_wait=None)
    (first,) = intake.admit([watched("first", 100)], 100.0).jobs
    assert group_deadline(first.annotations) is None, "nothing shows such a controller"
    intake.admit([pod_group("of-a-user"), watched("second", 100)], 100.0)
    intake.admit([owned(pod_group("pg"))], 100.0)
    (waits,) = intake.admit([watched("p", 100)], 101.0).jobs
    assert group_deadline(waits.annotations) == 100.0 + GROUP_WAIT_SECONDS
    (old,) = intake.admit([watched("old", 50)], 101.0).jobs
    assert group_deadline(old.annotations) is None, "it was there long before"
    jobs = {job.name: job for job in intake.registry.jobs.values()}
    assert group_deadline(jobs["second"].annotations) is None

    relabelled = watched("p", 100)
    relabelled["metadata"]["labels"] = {"a": "b"}
    (again,) = intake.admit([relabelled], 102.0).jobs
    assert group_deadline(again.annotations) == group_deadline(waits.annotations)
    (alone,) = intake.regroup([], [], [waits.jid], 110.0).jobs
    assert group_deadline(alone.annotations) is None


def test_a_group_that_is_named_at_the_deadline_counts() -> None:
    intake = Intake(dated=True, group_wait=5.0)
    (waits,) = intake.admit([watched("p", 100)], 100.0).jobs
    (named,) = intake.admit([watched("p", 100, group="g")], 104.0).jobs
    assert (late_group(named.annotations), group_deadline(named.annotations)) == ("g", None)
    assert intake.regroup([], [], [waits.jid], 105.0).jobs == [], "what was asked before the name"
    (gang,) = intake.regroup([waits.jid], [], [], 106.0).jobs
    assert members(gang) == ["p"]
