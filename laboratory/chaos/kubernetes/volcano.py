"""A chaos run in Volcano's words. Each node has two GPUs that pods share in Volcano's way."""

from __future__ import annotations

from random import Random

from laboratory.chaos.kubernetes.demands import Item
from laboratory.chaos.kubernetes.dialect import GPUS, QUEUES, GpuNodes
from laboratory.chaos.load import GROUP, NAMESPACE
from laboratory.chaos.policies import draw_policy
from laboratory.local_kubernetes.definitions import VOLCANO
from laboratory.local_kubernetes.kubelets import DURATION
from laboratory.workloads.manifests import manifest
from shared.model.node_devices import REGISTER

GPU_SHARES, GPU_AMOUNT = 4, 1000
"""Pods that may share one, and its memory."""

_CARDS = "".join(f"GPU-{i},{GPU_SHARES},{GPU_AMOUNT},V100,true:" for i in range(GPUS))


class VolcanoChaos:
    scheduler = "quadrant"
    definitions = VOLCANO
    nodes = GpuNodes(
        {
            "volcano.sh/vgpu-number": str(GPUS * GPU_SHARES),
            "volcano.sh/vgpu-memory": str(GPUS * GPU_AMOUNT),
            "volcano.sh/vgpu-cores": str(GPUS * 100),
        },
        annotations={REGISTER: _CARDS},
    )
    crowded_queue = ""
    gang_seconds = DURATION
    ends_in_part = True
    limits_often = 0

    def queues(self) -> list[Item]:
        return [manifest("Queue", name, {"weight": i}) for i, name in enumerate(QUEUES, 1)]

    def policy(self, draw: Random, *, evicting: bool) -> str:
        return draw_policy(draw, evicting=evicting, of_cluster=True)

    def group(self, name: str, minimum: int, queue: str, *, ends: bool) -> Item:
        spec = {"minMember": minimum, "queue": queue, "priorityClassName": "rank-high"}
        return manifest("PodGroup", name, spec, namespace=NAMESPACE)

    def group_path(self, name: str) -> str:
        return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups/{name}"

    def put_in(self, pod: Item, group: str) -> None:
        if group:
            pod["metadata"]["annotations"][GROUP] = group

    def ask_gpus(self, pod: Item, draw: Random) -> None:
        amounts = {
            "volcano.sh/vgpu-number": str(draw.choice((1, 1, 1, GPUS))),
            "volcano.sh/vgpu-memory": str(draw.choice((300, 400, 600))),
        }
        resources = pod["spec"]["containers"][0]["resources"]
        # Of what is no resource of Kubernetes' own the server wants both, and alike.
        resources["requests"] |= amounts
        resources["limits"] = amounts

    def another_limit(self, draw: Random) -> tuple[str, Item]:
        change = {"spec": {"weight": draw.randint(1, 4)}}
        return f"/apis/scheduling.volcano.sh/v1beta1/queues/{QUEUES[1]}", change
