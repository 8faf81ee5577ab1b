"""Pods that are to leave: which are late, and what keeps them."""

from __future__ import annotations

import pytest

from coordinator.cluster.kubernetes.state.leaving import OVERDUE_SECONDS
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.overdue import OverdueObstacle, OverduePod
from tests.coordinator.cluster.kubernetes.events import admit, listed, pod

GRACE = 5.0
LATE = 100.0 + GRACE + OVERDUE_SECONDS


@pytest.fixture
def mirror() -> Mirror:
    """One pod of ours that runs, at 100 s."""
    mirror = listed(pod("a", node="n", phase="Running"))
    admit(mirror, "a")
    mirror.tick(100.0)
    return mirror


def leaves(mirror: Mirror, *finalizers: str, phase: str = "Running") -> None:
    last = pod("a", node="n", phase=phase, leaving=True, grace=GRACE, finalizers=finalizers)
    mirror.take("Pod", last)


def overdue(mirror: Mirror, now: float) -> list[OverduePod]:
    return list(mirror.leaving.overdue(now))


def test_a_pod_is_late_some_time_after_its_grace(mirror: Mirror) -> None:
    leaves(mirror)
    assert overdue(mirror, LATE - 0.1) == []
    (late,) = overdue(mirror, LATE)
    assert late == OverduePod((1, 0), "default", "a", "n", OverdueObstacle.KUBELET, 100.0, GRACE)


def test_further_events_do_not_begin_its_time_anew(mirror: Mirror) -> None:
    leaves(mirror)
    mirror.tick(120.0)
    leaves(mirror, "example.com/hold")
    (late,) = overdue(mirror, LATE)
    assert (late.since, late.obstacle, late.detail) == (
        100.0,
        OverdueObstacle.FINALIZER,
        "example.com/hold",
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_is_not_overdue_despite_its_finalizers(mirror: Mirror, phase: str) -> None:
    leaves(mirror, "example.com/hold", phase=phase)
    assert overdue(mirror, LATE) == []


def test_one_that_is_gone_is_forgotten(mirror: Mirror) -> None:
    leaves(mirror)
    mirror.remove("Pod", pod("a", node="n"))
    assert overdue(mirror, LATE) == []


def test_a_refused_eviction_is_late_as_long_as_it_is_asked_for(mirror: Mirror) -> None:
    row = mirror.pods.by_key["default", "a"]
    assert mirror.leaving.refused(row, "the budget b", 100.0)
    assert not mirror.leaving.refused(row, "the budget b", 100.0 + OVERDUE_SECONDS)
    (late,) = overdue(mirror, 101.0 + OVERDUE_SECONDS)
    assert (late.obstacle, late.detail, late.since) == (
        OverdueObstacle.REFUSED,
        "the budget b",
        100.0,
    )
    assert overdue(mirror, 101.0 + 2 * OVERDUE_SECONDS) == [], "nobody asks any more"


def test_a_pod_that_leaves_is_no_longer_refused(mirror: Mirror) -> None:
    mirror.leaving.refused(mirror.pods.by_key["default", "a"], "the budget b", 100.0)
    leaves(mirror)
    assert overdue(mirror, 101.0 + OVERDUE_SECONDS) == []


@pytest.mark.parametrize("obstacle", OverdueObstacle)
def test_an_overdue_pod_names_its_node_time_and_remedy(obstacle: OverdueObstacle) -> None:
    late = OverduePod((1, 0), "ns", "a", "n7", obstacle, 0.0, GRACE, "words")
    assert late.sentence.startswith("ns/a on n7 was ")
    assert "1970-01-01T00:00:00Z" in late.sentence
    assert "delete" in late.sentence


def test_a_pod_that_another_leader_bound_while_we_lead_is_noted_once() -> None:
    mirror = listed(pod("a"), pod("b"), pod("c", node="n", annotations=_by("l/1:old")))
    mirror.statement = "l/2:new"
    mirror.take("Pod", pod("a", node="n", annotations=_by("l/1:old")))
    mirror.take("Pod", pod("b", node="n", annotations=_by("l/2:new")))
    mirror.take("Pod", pod("a", node="n", phase="Running", annotations=_by("l/1:old")))
    assert [row.name for row in mirror.take_late()] == ["a"]
    assert mirror.take_late() == []


def _by(leader: str) -> dict[str, str]:
    return {"quadrant.dev/statement": f"{leader}/7-0"}


def test_the_mirror_accounts_for_all_pods_after_intake() -> None:
    mirror = listed(pod("waits"), pod("runs", node="n", phase="Running"))
    assert mirror.complete
    assert not mirror.accounts_for_all
    admit(mirror, "runs")
    assert mirror.accounts_for_all
