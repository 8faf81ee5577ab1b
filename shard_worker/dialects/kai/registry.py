"""KAI's plugins of this version, by their names in a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shard_worker.dialects.kai.plugins import gpus, nodes, orders, predicates
from shard_worker.dialects.kai.plugins.min_runtime import MinRuntime
from shard_worker.dialects.kai.plugins.proportion import KaiProportion
from shard_worker.dialects.kai.plugins.topology import TopologyAware
from shard_worker.dialects.kai.search import generators
from shard_worker.dialects.kai.session import KaiSession
from shared.policy.model import PluginOption, Policy, PolicyError


class KaiPlugin(Protocol):
    """A plugin that registers at KAI's points."""

    def on_session_open(self, ssn: KaiSession) -> None: ...


PLUGINS: dict[str, Callable[[PluginOption], KaiPlugin]] = {
    "minruntime": MinRuntime,
    "nodeplacement": nodes.NodePlacement,
    "proportion": KaiProportion,
    "topology": TopologyAware,
}
"""Name -> factory, of plugins that take arguments or remember something."""

RULES: dict[str, Callable[[KaiSession], None]] = {
    "elastic": orders.elastic,
    "gpupack": gpus.gpu_pack,
    "gpusharingorder": gpus.gpu_sharing_order,
    "gpuspread": gpus.gpu_spread,
    "kubeflow": orders.kubeflow,
    "nodeavailability": nodes.node_availability,
    "nominatednode": nodes.nominated_node,
    "predicates": predicates.register,
    "priority": orders.priority,
    "ray": orders.ray,
    "resourcetype": nodes.resource_type,
    "sg-multinodegang": generators.register_multi_node_gang,
    "sg-nodelocalgreedy": generators.register_node_local_greedy,
    "taskorder": orders.task_order,
}
"""Name -> what registers the plugin's rules, of all others."""

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
            if option.name not in PLUGINS.keys() | RULES.keys() | WITHOUT_RULES.keys():
                raise PolicyError(f"plugin {option.name!r} is not in this version")
            with session.speaking(tier, option):
                if option.name in PLUGINS:
                    PLUGINS[option.name](option).on_session_open(session)
                elif option.name in RULES:
                    RULES[option.name](session)
    return session
