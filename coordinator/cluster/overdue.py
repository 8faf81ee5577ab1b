"""Pods that were told to end, and have not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.units.times import rfc3339


class OverdueObstacle(StrEnum):
    """Cause that keeps a pod on its node."""

    REFUSED = "refused"
    """The cluster does not let it be evicted: a disruption budget, mostly."""
    FINALIZER = "finalizer"
    """Its grace is over, and somebody's finalizers hold it too."""
    KUBELET = "kubelet"
    """Its grace is over, and its node has not said that it ended."""


@dataclass(frozen=True, slots=True)
class OverduePod:
    """A pod that still takes its room although it was to leave it."""

    task: tuple[int, int]
    """(jid, tix)"""
    namespace: str
    name: str
    node: str
    obstacle: OverdueObstacle
    since: float
    """When it was asked to go, seconds since 1970: by our clock, so after a change of leader when
    the new one first saw it."""
    grace: float = 0.0
    """Seconds that its containers may take to end."""
    detail: str = ""
    """The finalizers, or the server's own words."""

    @property
    def sentence(self) -> str:
        """Sentence that names the pod, since when it should be gone, the cause and the remedy."""
        pod = f"{self.namespace}/{self.name} on {self.node}"
        at = rfc3339(self.since)
        force = f"kubectl delete pod {self.name} -n {self.namespace} --grace-period=0 --force"
        sentence = f"{pod} was told to end at {at} with {self.grace:g} s of grace"
        match self.obstacle:
            case OverdueObstacle.REFUSED:
                return (
                    f"{pod} was to be evicted at {at}, and the API server still refuses: "
                    f"{self.detail}; change the budget, or delete the pod"
                )
            case OverdueObstacle.FINALIZER:
                return (
                    f"{sentence} and is there yet, held by the finalizers {self.detail}; see that "
                    f"whoever set them takes them off and that the kubelet of {self.node} runs; "
                    f"if that machine is gone: {force}"
                )
            case OverdueObstacle.KUBELET:
                return (
                    f"{sentence} and its kubelet has not said that it ended; see that the kubelet "
                    f"of {self.node} runs, or if that machine is gone: {force}"
                )
