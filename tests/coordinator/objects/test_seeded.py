"""Seeded runs of everything with objects listening: no decision changes, and nobody who follows is
left with an old picture, through kills, restarts and successors."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.intake.changes import Changes
from coordinator.objects.store import Objects
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from laboratory.simulation.service_edges import ServiceEdges
from tests.coordinator.objects.test_watchers import FOLLOWED, ObjectFollower
from tests.examples import examples


class WatchedObjects:
    """One coordinator's objects and those who follow them."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects  # as a World, for a follower
        self.cluster_events = False
        """Whether a job ever had a story: it goes with its job."""
        self.followers = [ObjectFollower(self, kind) for kind in FOLLOWED]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7, 9, 13, 22][: examples(8, least=1)])
def test_a_run_with_objects_is_the_run_without(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without = play(scenario(seed)).notes.lines
    every: list[WatchedObjects] = []
    begin, admitted = ServiceEdges.__init__, Coordinator.admitted

    def beginning(edges: ServiceEdges, **given: Any) -> None:
        begin(edges, **given)
        core, intake = given["core"], given["intake"]
        objects = Objects(core, lambda: intake.registry, epoch=given["epoch"].counter)
        objects.restore(intake.documents.values())
        core.observe(objects)
        every.append(WatchedObjects(objects))

    def telling(core: Coordinator, changes: Changes, states: Any = None) -> None:
        if isinstance(core.observer, Objects):
            core.observer.publish(
                changes.documents, changes.documents_gone, purged=changes.jobs_purged
            )
        admitted(core, changes, states)
        if isinstance(core.observer, Objects):
            core.observer.report_waiting()
            for follower in every[-1].followers:
                follower.follow()
            every[-1].cluster_events |= bool(core.observer.stories.happenings)

    monkeypatch.setattr(ServiceEdges, "__init__", beginning)
    monkeypatch.setattr(Coordinator, "admitted", telling)
    assert play(scenario(seed)).notes.lines == without
    assert every
    for follower in every[-1].followers:
        follower.follow()
        follower.check()
    assert any(watched.cluster_events for watched in every)
