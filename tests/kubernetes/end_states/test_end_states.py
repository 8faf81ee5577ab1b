"""Walks beside the controllers of Kubernetes, Volcano and KAI leave what was recorded, and each
difference from the real scheduler has a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.end_states import page, recorded
from tests.kubernetes.end_states.differences import DIFFERENCES, difference
from tests.kubernetes.end_states.recorded import OURS, THEIRS, without_normal_events
from tests.kubernetes.end_states.schedulers import Peer, Surroundings
from tests.kubernetes.end_states.walk import Walk

WALKS = [
    pytest.param(peer, walk, id=f"{peer}: {walk.name}") for peer in Peer for walk in peer.walks
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("peer", "walk"), WALKS)
async def test_a_walk_leaves_what_was_recorded(  # noqa: PLR0917
    peer: Peer,
    walk: Walk,
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
) -> None:
    expected = recorded.read()[peer.value][walk.name][OURS]
    around = Surroundings(control_plane, cluster, short_dir, redis_url)
    moments = await recorded.walked(
        around, peer, walk, real=False, expected=expected, unchanged=recorded.WITHIN_SECONDS
    )
    assert {moment: without_normal_events(fields) for moment, fields in moments.items()} == {
        moment: without_normal_events(fields) for moment, fields in expected.items()
    }


def test_normal_events_alone_may_differ() -> None:
    fields = {"Pod: events": "Normal Evict, Warning FailedScheduling", "Pod p: phase": "x"}
    assert without_normal_events(fields) == {
        "Pod: events": "Warning FailedScheduling",
        "Pod p: phase": "x",
    }
    assert without_normal_events({"Pod: events": "Normal Evict"}) == {}


def test_every_walk_is_recorded_with_both_schedulers_at_the_same_moments() -> None:
    record = recorded.read()
    for peer in Peer:
        assert record[peer.value].keys() == {walk.name for walk in peer.walks}
        for name, sides in record[peer.value].items():
            assert sides[THEIRS].keys() == sides[OURS].keys(), name


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    used = {
        difference(peer, field, theirs, ours)
        for peer, walks in recorded.read().items()
        for sides in walks.values()
        for moment in sides[OURS]
        for field, theirs, ours in page.differing(sides[THEIRS], sides[OURS], moment)
    }
    assert used == set(DIFFERENCES)


def test_the_page_is_what_was_recorded() -> None:
    written = page.PAGE.read_text()
    assert written == page.text(recorded.read()), "run: python -m tests.kubernetes.end_states.page"
