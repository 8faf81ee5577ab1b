"""KAI's plugins of this version, by their names in a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shard_worker.dialects.kai.plugins.gpus import GpuPack, GpuSharingOrder, GpuSpread
from shard_worker.dialects.kai.plugins.min_runtime import MinRuntime
from shard_worker.dialects.kai.plugins.nodes import (
    NodeAvailability,
    NodePlacement,
    NominatedNode,
    ResourceType,
)
from shard_worker.dialects.kai.plugins.orders import Elastic, Kubeflow, Priority, Ray, TaskOrder
from shard_worker.dialects.kai.plugins.predicates import Predicates
from shard_worker.dialects.kai.plugins.proportion import Proportion
from shard_worker.dialects.kai.plugins.topology import TopologyAware
from shard_worker.dialects.kai.search.generators import MultiNodeGang, NodeLocalGreedy
from shard_worker.dialects.kai.session import KaiSession
from shared.policy.model import PluginOption, Policy, PolicyError


class KaiPlugin(Protocol):
    """A plugin that registers at KAI's points."""

    def on_session_open(self, ssn: KaiSession) -> None: ...


PLUGINS: dict[str, Callable[[PluginOption], KaiPlugin]] = {
    "elastic": Elastic,
    "gpupack": GpuPack,
    "gpusharingorder": GpuSharingOrder,
    "gpuspread": GpuSpread,
    "kubeflow": Kubeflow,
    "minruntime": MinRuntime,
    "nodeavailability": NodeAvailability,
    "nodeplacement": NodePlacement,
    "nominatednode": NominatedNode,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "ray": Ray,
    "resourcetype": ResourceType,
    "sg-multinodegang": MultiNodeGang,
    "sg-nodelocalgreedy": NodeLocalGreedy,
    "taskorder": TaskOrder,
    "topology": TopologyAware,
}
"""Name -> factory."""

WITHOUT_RULES: dict[str, str] = {
    "dynamicresources": "claims are checked by predicates",
    "subgrouporder": "sub groups always have this order",
    "snapshot": "quadrant snapshot gives what it serves",
    "reflectjoborder": "quadrant queue order gives what it serves",
    "podaffinity": "pod affinity is required or ignored, not preferred, yet",
}
"""Plugins that are taken and register nothing, and why."""


def open_kai_session(policy: Policy, session: KaiSession | None = None) -> KaiSession:
    """Create the policy's plugins and let each register, in the policy's order; KAI's tiers are one
    list. ``session``: registers with this one, which is of the policy. Raises PolicyError if a
    plugin is not in this version."""
    session = KaiSession(policy) if session is None else session
    with session.speaking(0, PluginOption("devices")):
        session.keep_devices()
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = PLUGINS.get(option.name)
            if make is None and option.name not in WITHOUT_RULES:
                raise PolicyError(f"plugin {option.name!r} is not in this version")
            if make is not None:
                with session.speaking(tier, option):
                    make(option).on_session_open(session)
    return session
