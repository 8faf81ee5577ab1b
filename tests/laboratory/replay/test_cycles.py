"""Sessions in a row: what the cluster is assumed to have done between two of them."""

from __future__ import annotations

from shard_worker.session_model.status import Status
from tests.builders.objects import priority_class
from tests.laboratory.replay.build import case, gang, group, node, pod, policy, session, sessions

BOTH = policy("allocate, preempt", "priority", "gang", "conformance", "predicates")


def test_bound_pods_and_their_pod_group_run_in_the_next_session() -> None:
    first, second = sessions(
        case(node("a"), *gang("g", pods=2), under=policy("allocate", "gang", "predicates")), 2
    )
    assert (len(first.binds), first.pod_groups["ns/g"]["phase"]) == (2, "Inqueue")
    assert (second.binds, second.pod_groups["ns/g"]["phase"]) == ({}, "Running")


def test_a_victim_makes_room_and_waits_itself() -> None:
    items = [
        node("a"),
        priority_class("top", 100),
        *gang("low", pods=4, on="a", minMember=1),
        group("top", priorityClassName="top"),
        pod("top-0", group="top", cpu=2),
    ]
    first, second, third = sessions(case(*items, under=BOTH), 3)
    assert len(first.evicted) == 2
    assert first.pipelined == {"ns/top-0": "a"}
    assert second.binds == {"ns/top-0": "a"}
    assert second.evicted == []
    assert second.tasks["ns/low"] == {"Pending": 2, "Running": 2}
    assert (third.binds, third.evicted, third.pipelined) == ({}, [], {})


def test_terminating_pods_are_gone_in_the_next_session() -> None:
    leaving = pod("old-0", group="old", cpu=4, on="a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    items = [node("a"), group("old"), leaving, *gang("new", pods=1, cpu=4)]
    first, second = sessions(case(*items, under=policy("allocate", "gang", "predicates")), 2)
    assert (first.binds, first.pipelined) == ({}, {"ns/new-0": "a"})
    assert second.binds == {"ns/new-0": "a"}
    assert second.tasks["ns/old"] == {str(Status.FAILED.name).capitalize(): 1}


def test_one_session_is_the_first_of_several() -> None:
    items = [node("a"), *gang("g", pods=2)]
    under = policy("allocate", "gang", "predicates")
    assert sessions(case(*items, under=under), 3)[0] == session(*items, under=under)
