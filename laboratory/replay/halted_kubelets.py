"""Kubelets on which time stands still: the cluster as a session leaves it."""

from __future__ import annotations

from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, Listed, Phase
from coordinator.cluster.simulated.cluster import LocalCluster
from shared.codec.packed import replace


class HaltedKubelets(LocalCluster):
    """They take what they are told, and do nothing: no pod starts, and none ends."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[str] = set()
        """Tasks that were bound and would begin to run."""

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        bound = super().bind(requests, now)
        taken = zip(requests.tasks, bound.answers, strict=True)
        self._waiting.update(task for task, answer in taken if answer == BindAnswer.OK)
        return bound

    def advance(self, now: float) -> None:
        pass

    def next_due(self) -> float | None:
        return None

    def _listed(
        self, tasks: list[str], token: str, *, every: bool = False, highest: int = -1
    ) -> Listed:
        listed = super()._listed(tasks, token, every=every, highest=highest)
        phases = [
            int(Phase.BOUND) if phase == Phase.RUNNING and task in self._waiting else phase
            for task, phase in zip(listed.tasks, listed.phases, strict=True)
        ]
        return replace(listed, phases=phases)
