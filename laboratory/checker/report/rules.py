"""The checker's rules: each promise, as far as a history can show it."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """A rule, and the promise that it belongs to. Its name appears in reports."""

    BOUND_ONCE = 1, "a task has at most one live binding per incarnation"
    LEDGER_CAPACITY = 2, "no statement uses more of a node than it has, nominations included"
    CLUSTER_CAPACITY = 2, "no node holds more than it has, as the cluster starts and ends tasks"
    DEVICE_CAPACITY = (
        2,
        "no statement, nominations included, and no pods by what is written on them use more of a "
        "device than there is",
    )
    DEVICES = (
        2,
        "who asks for devices, or shares of them, gets them in full, no node gives more than it "
        "has, and bound pods have those that the ledger says",
    )
    QUEUE_CAPABILITY = 2, "no queue holds more than its capability"
    CHARGED_QUEUE = 2, "every job counts in the queue that it, or its PodGroup, names"
    QUEUE_TREE = (
        2,
        "no queue of KAI's, nor any above it, is given more than its limit, nor more than its "
        "quota of what may not be evicted",
    )
    NOMINATION_RANK = 2, "nominations give way to higher ranks only"
    NOMINATION_END = 2, "nominations end with their time, and what ended is not kept"
    VICTIM_GUARANTEE = 2, "no eviction takes what is guaranteed to a queue"
    GANG_WHOLE = 3, "no statement moves a gang between nothing and its minimum"
    VICTIM_GANG = 3, "no eviction leaves a gang in part that the policy guards"
    GANG_REPAIRED = 3, "a gang in part, whatever the cause, is repaired or released in time"
    EPOCH = 4, "no writer writes under an epoch that has ended"
    BORDER = 4, "no node is two shards' own, and no shard goes beyond its border"
    ONE_EFFECT = 5, "a request takes effect once"
    TRANSITION = 6, "tasks and jobs change as their states allow"
    ACCOUNT = 6, "ledger and cluster agree, and nothing is lost between them"
    FREED = 6, "no task is freed in the ledger before the cluster says that it ended"
    ACKNOWLEDGED = 6, "no acknowledged job is gone"
    SEALED = 6, "the history is as it was written, up to where a kill cut it off"
    NUMBERING = 6, "no event is missing between two others"
    BINDING_ENDS = 8, "no task stays on its way to its node"
    EVICTION_REASON = 9, "evictions are for the job, and by the rules, that were said"
    EVICTION_POLICY = 9, "no task is evicted that the policy protects"
    VICTIM_NEEDED = 9, "no eviction takes more than its job needs"
    RECLAIM_CLAIM = 9, "no queue reclaims beyond what it deserves, or what its share can be"
    RECLAIMED_SHARE = 9, "no reclaim takes from a queue of KAI's that is within its quota"
    MIN_RUNTIME = 9, "nobody takes a job's minimum from it before it ran for the time it is left"
    NODE_RULES = (
        9,
        "bound pods have no gate, and their node's labels, taints, groups and zones admit them",
    )
    POD_RULES = 9, "what was bound keeps pod affinity, topology spread and hard network topology"
    VOLUMES = (
        9,
        "what was bound has its volumes first, reaches them, and shares none with another claim",
    )

    def __init__(self, promise: int, text: str) -> None:
        self.promise = promise
        self.text = text

    # Members are counted by millions: identity is the equality they have, and C is quicker.
    __hash__ = object.__hash__

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


UNSEEN = {
    7: "after a refused or rolled back statement the view equals one that never saw it",
    10: "bad input is refused with an error that names the field, and changes nothing",
}
"""Promises that a history cannot show; other tests cover them."""
