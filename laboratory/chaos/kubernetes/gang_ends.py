"""Gangs that end once they are whole: a controller in a chaos run in KAI's words.

KAI schedules a gang as long as enough of its pods have not ended. Where one ends while another is
still being bound, because its volume or its answer is late, the rest waits for ever, as it would
under KAI. So the seconds of a gang's pods are counted from when all of them run.
"""

from __future__ import annotations

import time
from collections import defaultdict

from laboratory.chaos.kubernetes.demands import Item
from laboratory.chaos.load import NAMESPACE
from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from laboratory.local_kubernetes.kubelets import ended, path_of
from shared.manifests.kai.groups import GROUP_NAME

ONCE_WHOLE = "quadrant.dev/duration-once-whole"
"""Annotation of a pod: seconds that it runs once its gang is whole."""


class GangEnds:
    def __init__(self) -> None:
        self._whole: dict[str, float] = {}
        """Gang -> since when no pod of it waits."""

    async def look(self, client: ApiClient) -> None:
        """Say of pods that they have ended, in the place of their kubelets."""
        gangs: dict[str, list[Item]] = defaultdict(list)
        for pod in (await client.get(f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]:
            notes = pod["metadata"].get("annotations") or {}
            if ONCE_WHOLE in notes:
                gangs[notes[GROUP_NAME]].append(pod)
        for name, pods in gangs.items():
            if any(pod["status"]["phase"] == "Pending" for pod in pods):
                continue
            passed = time.monotonic() - self._whole.setdefault(name, time.monotonic())
            for pod in pods:
                seconds = float(pod["metadata"]["annotations"][ONCE_WHOLE])
                if pod["status"]["phase"] == "Running" and passed >= seconds:
                    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": ended(pod, 0)}
                    # It may have been deleted meanwhile.
                    await client.patch(
                        f"{path_of(pod)}/status", body, form=STRATEGIC_PATCH, code=None
                    )
