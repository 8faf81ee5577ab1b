"""A chaos run in KAI's words. Each node has two GPUs: pods have parts of them, or whole ones.

Gangs that end by themselves may not be evicted: nobody makes their pods again. Such gangs get no
more than their queue's quota, so the quotas have no bound; pods without an end go for others of
their own queue alone.
"""

from __future__ import annotations

from random import Random

from laboratory.chaos import kai
from laboratory.chaos.kubernetes.demands import Item
from laboratory.chaos.kubernetes.dialect import GPUS, QUEUES, GpuNodes
from laboratory.chaos.kubernetes.gang_ends import ONCE_WHOLE
from laboratory.chaos.kubernetes.pod_history import KAI_SCHEDULER
from laboratory.chaos.load import NAMESPACE
from laboratory.local_kubernetes.definitions import KAI
from laboratory.workloads.drawn_kai import kai_group
from laboratory.workloads.generators import GPU
from laboratory.workloads.manifests import kai_queue
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL
from shared.model.gpu_request import FRACTION, NUMBER
from shared.model.kai_devices import MEMORY_LABEL

KAI_EVERY = 3
"""One in this many groups of three seeds is KAI's: all that may happen to a ledger is drawn by the
seed within such a group."""
WHOLE_OFTEN = 0.3
"""Fraction of whole devices among the pods that request GPUs."""
LIMITS = (8, 24)
"""GPUs that a queue may use: the widest gang has eight."""


def is_of_kai(seed: int) -> bool:
    """Whether a run of this seed is in KAI's words where nobody says it."""
    return seed // 3 % KAI_EVERY == KAI_EVERY - 1


class KaiChaos:
    scheduler = KAI_SCHEDULER
    definitions = KAI
    nodes = GpuNodes({GPU: str(GPUS)}, labels={MEMORY_LABEL: "16000"})
    crowded_queue = QUEUES[0]
    """KAI's action preempt displaces within a queue; single pods are in this one."""
    gang_seconds = ONCE_WHOLE
    ends_in_part = False
    limits_often = 4

    def queues(self) -> list[Item]:
        return [kai_queue(kai.ROOT), *(kai_queue(name, kai.ROOT) for name in QUEUES)]

    def policy(self, draw: Random, *, evicting: bool) -> str:
        return kai.draw_policy(draw, evicting=evicting, of_cluster=True)

    def group(self, name: str, minimum: int, queue: str, *, ends: bool) -> Item:
        spec = {"minMember": minimum, "queue": queue, "priorityClassName": "rank-high"}
        spec["preemptibility"] = "non-preemptible" if ends else "preemptible"
        return kai_group(name, spec, namespace=NAMESPACE)

    def group_path(self, name: str) -> str:
        return f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups/{name}"

    def put_in(self, pod: Item, group: str) -> None:
        if group:
            pod["metadata"]["annotations"][GROUP_NAME] = group
        else:
            pod["metadata"]["labels"][QUEUE_LABEL] = QUEUES[0]

    def ask_gpus(self, pod: Item, draw: Random) -> None:
        number = str(draw.choice((1, 1, 1, GPUS)))
        if draw.random() < WHOLE_OFTEN:
            resources = pod["spec"]["containers"][0]["resources"]
            resources["requests"] |= {GPU: number}
            resources["limits"] = {GPU: number}
            return
        several = {NUMBER: number} if number != "1" else {}
        part = {FRACTION: draw.choice(("0.3", "0.4", "0.6"))}
        pod["metadata"]["annotations"] |= part | several

    def another_limit(self, draw: Random) -> tuple[str, Item]:
        change = {"spec": {"resources": {"gpu": {"limit": draw.randint(*LIMITS)}}}}
        return f"/apis/scheduling.run.ai/v2/queues/{QUEUES[1]}", change
