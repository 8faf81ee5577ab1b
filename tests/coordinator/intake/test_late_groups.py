"""Pods that are named a group after they were admitted, and what is stored of their move."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.admission.pods import GROUP_AFTER_BINDING
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from shared.ledger.entries.intake_batch import DropJob, PurgeJob
from shared.manifests.fields.metadata import late_group
from tests.coordinator.intake.bench import BEST_EFFORT, Bench, members, same, state
from tests.coordinator.intake.objects import container, pod, pod_group, queue


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
    (kept,) = bench.regroup(apart=[alone.jid]).jobs
    assert (kept.jid, kept.kind, late_group(kept.annotations)) == (alone.jid, "Pod", "")
    assert kept.roles == alone.roles


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


def test_whoever_may_not_plant_names_no_group_that_does_not_exist() -> None:
    intake = Intake()
    intake.admit([pod("p")], 1.0)
    (refusal,) = intake.admit([pod("p", group="g")], 2.0, planting=False).refused
    assert refusal.reason == "Forbidden"
