"""The service with its Kubernetes driver, by seed, against the double of the API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cluster.kubernetes.cluster import KubernetesCluster
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.verdict import PodVerdict
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.cluster.protocol import BindAnswer
from laboratory.virtual_kubernetes.play import KubernetesPlayed, play_kubernetes
from laboratory.virtual_kubernetes.server_faults import ServerFaultKind
from tests.examples import examples
from tests.laboratory.simulation.same_history import check_same_history

SEEDS = examples(30)
"""``.ci/run`` plays half of the thirty here, and those up to 129 as a part of its own."""
PER_TEST = 5
"""Seeds of one test."""
MEETING = (2, 26, 29, 32)
"""They met everything between them when this was written."""


def keeps_its_promises(seed: int) -> KubernetesPlayed:
    played = play_kubernetes(seed)
    again = f"quadrant chaos sim --cluster kubernetes --seed {seed}"
    assert not played.broken, f"{again}: {played.broken[0]}"
    assert played.report is not None
    assert played.report.summary.tasks_bound > 0, again
    return played


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_everything_ends_and_no_promise_breaks(first: int) -> None:
    for seed in range(first, min(first + PER_TEST, SEEDS)):
        keeps_its_promises(seed)


def test_some_seeds_meet_every_fault_and_every_kind_of_request() -> None:
    faults = {"binding held back", *(kind.value for kind in ServerFaultKind)}
    requests = {
        ("POST", "pods", "binding"),
        ("PATCH", "pods", "status"),
        ("POST", "events", ""),
        ("PATCH", "leases.coordination.k8s.io", ""),
        ("PATCH", "podgroups.scheduling.volcano.sh", ""),
        ("PATCH", "queues.scheduling.volcano.sh", "status"),
        ("DELETE", "nodes", ""),
    }
    for seed in (*MEETING, *range(SEEDS)):
        played = keeps_its_promises(seed)
        faults -= (+played.simulation.timeline.struck).keys()
        requests -= played.api.server.requests.keys()
        if not (faults or requests):
            return
    raise AssertionError(f"not met: {faults}, {requests}")


def test_a_seed_leaves_the_same_history_to_the_byte(tmp_path: Path) -> None:
    check_same_history(tmp_path, 2, "--cluster", "kubernetes")


# --- faults planted in the driver ----------------------------------------------------------------


def _found(rule: str, *, first: int) -> bool:
    """Whether a seed breaks it; ``first``: one that did when this was written."""
    return any(
        rule in broken.rule
        for seed in (first, *range(20))
        for broken in play_kubernetes(seed).broken
    )


def test_a_list_that_does_not_say_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    end_list = Mirror.end_list

    def deaf(self: Mirror, kind: str) -> None:
        if (listed := self._listing.get(kind)) is not None:
            listed.update(self._known[kind])
        end_list(self, kind)

    monkeypatch.setattr(Mirror, "end_list", deaf)
    assert _found("promise 6", first=3)


def test_a_leader_that_judges_before_it_has_listed_every_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(self: KubernetesCluster) -> None:
        pass

    monkeypatch.setattr(KubernetesCluster, "_all_known", at_once)
    assert _found("promise 6", first=4)


def test_a_binding_without_an_answer_that_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def guessed(self: ApiWrites, row: PodRow, node: str) -> PodVerdict:
        return PodVerdict(BindAnswer.GONE)

    monkeypatch.setattr(ApiWrites, "look", guessed)
    assert _found("unfinished", first=2)
