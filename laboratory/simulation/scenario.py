"""The scenario of a seeded run, as values: objects, users' wishes, and faults.

Everything follows from the seed and can be written as JSON, so that a shrunk scenario can be stored
and run again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from coordinator.intake.documents.document import Key
from laboratory.simulation.virtual_time import Network
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.manifests.fields.metadata import GROUP_NAME
from shared.manifests.kai.groups import GROUP_NAME as KAI_GROUP

Item = dict[str, Any]


class FaultKind(StrEnum):
    """A fault of a role or of the server's clock. ``seconds``: how long the role is away, or how
    far the clock jumps."""

    WORKER_KILLED = "worker killed"
    WORKER_PAUSED = "worker paused"
    LEADER_KILLED = "leader killed"
    LEADER_PAUSED = "leader paused"
    LEADER_STUCK = "leader stuck"
    STANDBY_KILLED = "standby killed"
    STANDBY_PAUSED = "standby paused"
    CLOCK_JUMPED = "clock jumped"
    SERVER_RESTARTED = "server restarted"
    SERVER_AWAY = "server away"
    CLUSTER_AWAY = "cluster away"
    TASKS_LOST = "tasks lost"


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: FaultKind
    at: float
    """Seconds after the start."""
    seconds: float = 0.0
    shard: int = 0


class UserRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request of a user: objects to create or change, one to delete, or a node to drain."""

    at: float
    items: tuple[Item, ...] = ()
    delete: Key | None = None
    drain: str = ""


class PolicyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy file changes ``at`` seconds after the start."""

    at: float
    policy: Item


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: int
    """Seed of the delays, losses and repetitions of messages."""
    mode: Mode
    shards: int
    network: Network
    faulty: bool
    """Whether the cluster refuses, times out and repeats reports."""
    setup: tuple[Item, ...]
    """The cluster at the start."""
    wishes: tuple[UserRequest, ...]
    faults: tuple[Fault, ...]
    standby: bool
    """Whether a second coordinator runs from the start."""
    evicting: bool = False
    """Whether workers evict tasks in their way."""
    policy: Item = msgspec.field(default_factory=dict)
    """The policy file's content; empty: the default policy."""
    policy_changes: tuple[PolicyChange, ...] = ()
    usage: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """Node -> percent of its CPU and memory in use, as a metrics source reports it."""

    @property
    def deletes(self) -> bool:
        return any(wish.delete is not None for wish in self.wishes)

    @property
    def drains(self) -> bool:
        return any(wish.drain for wish in self.wishes)

    @property
    def restarts(self) -> bool:
        """Whether policies of Jobs begin pods anew."""
        items = (item for wish in self.wishes for item in wish.items)
        return any(item["kind"] == "Job" and "policies" in item["spec"] for item in items)

    def stories(self) -> list[str]:
        """Names that can be left out independently: a job, group, queue or node with all wishes
        about it."""
        names = {story_of_key(wish.delete) for wish in self.wishes if wish.delete is not None}
        names |= {story_of(item) for wish in self.wishes for item in wish.items}
        names |= {f"drain {wish.drain}" for wish in self.wishes if wish.drain}
        return sorted(names - {""})

    def without(self, stories: set[str]) -> Scenario:
        """The scenario without the wishes about these names."""
        wishes = []
        for wish in self.wishes:
            if wish.delete is not None and story_of_key(wish.delete) in stories:
                continue
            if f"drain {wish.drain}" in stories:
                continue
            items = tuple(item for item in wish.items if story_of(item) not in stories)
            if items or wish.drain or wish.delete is not None:
                wishes.append(replace(wish, items=items))
        return replace(self, wishes=tuple(wishes))

    # --- as text --------------------------------------------------------------------------------

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """Parse JSON. ValueError if the text is not a scenario."""
        return msgspec.json.decode(text, type=cls)


def story_of(item: Item) -> str:
    """ "" for what others cannot do without: nodes that join late."""
    kind, metadata = item["kind"], item["metadata"]
    match kind:
        case "Pod":
            return f"PodGroup {_group_of(metadata)}"
        case "PersistentVolumeClaim":  # of the job that is named after the dash
            return f"Job {metadata['name'].partition('-')[2]}"
        case "Job" if item["spec"]["queue"] == "short":
            return "Queue short"
        case "Node" if metadata.get("labels", {}).get("joins") == "late":
            return ""
        case _:
            return f"{kind} {metadata['name']}"


def _group_of(pod: Item) -> str:
    """The group that a pod names; its own name for a pod that is one of its own, as KAI has it."""
    annotations = pod.get("annotations", {})
    group: str = annotations.get(GROUP_NAME) or annotations.get(KAI_GROUP) or pod["name"]
    return group


def story_of_key(key: Key) -> str:
    """As :func:`story_of`, of an object that is deleted."""
    match key.kind:
        case "KaiQueue" | "KaiPodGroup":
            return f"{key.kind.removeprefix('Kai')} {key.name}"
        case "Pod":
            return f"PodGroup {key.name.partition('-')[0]}"
        case "Job" if key.name.startswith("s"):
            return "Queue short"
        case _:
            return f"{key.kind} {key.name}"
