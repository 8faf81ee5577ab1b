"""The plugins of this version, and their creation from a policy's options."""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.dialects.volcano.plugins.job.cdp import Cdp
from shard_worker.dialects.volcano.plugins.job.conformance import Conformance
from shard_worker.dialects.volcano.plugins.job.gang import Gang
from shard_worker.dialects.volcano.plugins.job.pdb import Pdb
from shard_worker.dialects.volcano.plugins.job.priority import Priority
from shard_worker.dialects.volcano.plugins.job.rescheduling import Rescheduling
from shard_worker.dialects.volcano.plugins.job.sla import Sla
from shard_worker.dialects.volcano.plugins.job.task_topology import TaskTopology
from shard_worker.dialects.volcano.plugins.job.tdm import Tdm
from shard_worker.dialects.volcano.plugins.node.binpack import Binpack
from shard_worker.dialects.volcano.plugins.node.deviceshare import DeviceShare
from shard_worker.dialects.volcano.plugins.node.extender import Extender
from shard_worker.dialects.volcano.plugins.node.network_topology_aware import NetworkTopologyAware
from shard_worker.dialects.volcano.plugins.node.nodegroup import NodeGroup
from shard_worker.dialects.volcano.plugins.node.nodeorder import NodeOrder
from shard_worker.dialects.volcano.plugins.node.numa_aware import NumaAware
from shard_worker.dialects.volcano.plugins.node.predicates import Predicates
from shard_worker.dialects.volcano.plugins.node.resource_strategy_fit import ResourceStrategyFit
from shard_worker.dialects.volcano.plugins.node.usage import Usage
from shard_worker.dialects.volcano.plugins.queue.capacity import Capacity
from shard_worker.dialects.volcano.plugins.queue.drf import Drf
from shard_worker.dialects.volcano.plugins.queue.overcommit import Overcommit
from shard_worker.dialects.volcano.plugins.queue.proportion import Proportion
from shard_worker.dialects.volcano.plugins.queue.resource_quota import ResourceQuotas
from shard_worker.framework.session import Plugin
from shared.policy.evicting_actions import EVICTING
from shared.policy.model import PluginOption, Policy, PolicyError
from shared.policy.third_party import third_party_plugins

PLUGINS: dict[str, Callable[[PluginOption], Plugin]] = {
    "binpack": Binpack,
    "capacity": Capacity,
    "conformance": Conformance,
    "drf": Drf,
    "gang": Gang,
    "network-topology-aware": NetworkTopologyAware,
    "nodegroup": NodeGroup,
    "nodeorder": NodeOrder,
    "overcommit": Overcommit,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
    "resourcequota": ResourceQuotas,
    "sla": Sla,
    "tdm": Tdm,
    "rescheduling": Rescheduling,
    "pdb": Pdb,
    "cdp": Cdp,
    "usage": Usage,
    "task-topology": TaskTopology,
    "resource-strategy-fit": ResourceStrategyFit,
    "numa-aware": NumaAware,
    "extender": Extender,
    "deviceshare": DeviceShare,
}
"""Name in the policy file -> factory."""

READING_RESIDENTS = frozenset({"deviceshare", "numa-aware"})
"""Plugins of ours that look at what runs on nodes, beside what is linked to the task."""


def reads_residents(policy: Policy) -> bool:
    """Whether workers need the table of residents: if an action evicts or a plugin looks at the
    pods on nodes. Third-party plugins are assumed to."""
    names = {option.name for tier in policy.tiers for option in tier}
    return bool(
        EVICTING.intersection(policy.actions)
        or names & READING_RESIDENTS
        or not names <= PLUGINS.keys()
    )


def build_plugin(option: PluginOption) -> Plugin:
    """Create the plugin of one option: a built-in one, else one from an installed package's entry
    point.

    Raises PolicyError if no such plugin exists, it cannot be loaded, or an argument is wrong.
    """
    make = PLUGINS.get(option.name) or _third_party(option.name)
    return make(option)


def _third_party(name: str) -> Callable[[PluginOption], Plugin]:
    entry_point = third_party_plugins().get(name)
    if entry_point is None:
        raise PolicyError(
            f"plugin {name!r} is not in this version; "
            f"this version has: {', '.join(sorted(PLUGINS))}"
        )
    try:
        maker: Callable[[PluginOption], Plugin] = entry_point.load()
    except Exception as error:  # whatever a stranger's module does when it is imported
        raise PolicyError(
            f"plugin {name}: {entry_point.value} cannot be loaded: {error}; "
            "repair or remove its package"
        ) from error
    return maker
