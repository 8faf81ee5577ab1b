"""Which plugins this version has, and how one is made from its option in the policy."""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.plugins.binpack import Binpack
from shard_worker.plugins.capacity import Capacity
from shard_worker.plugins.cdp import Cdp
from shard_worker.plugins.conformance import Conformance
from shard_worker.plugins.deviceshare import DeviceShare
from shard_worker.plugins.drf import Drf
from shard_worker.plugins.extender import Extender
from shard_worker.plugins.gang import Gang
from shard_worker.plugins.network_topology_aware import NetworkTopologyAware
from shard_worker.plugins.nodegroup import NodeGroup
from shard_worker.plugins.nodeorder import NodeOrder
from shard_worker.plugins.numa_aware import NumaAware
from shard_worker.plugins.overcommit import Overcommit
from shard_worker.plugins.pdb import Pdb
from shard_worker.plugins.predicates import Predicates
from shard_worker.plugins.priority import Priority
from shard_worker.plugins.proportion import Proportion
from shard_worker.plugins.rescheduling import Rescheduling
from shard_worker.plugins.resource_quota import ResourceQuotas
from shard_worker.plugins.resource_strategy_fit import ResourceStrategyFit
from shard_worker.plugins.sla import Sla
from shard_worker.plugins.task_topology import TaskTopology
from shard_worker.plugins.tdm import Tdm
from shard_worker.plugins.usage import Usage
from shard_worker.session import Plugin
from shared.policy import PluginOption, PolicyError
from shared.third_party import third_party_plugins

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
"""Name in the policy file -> maker."""


def build_plugin(option: PluginOption) -> Plugin:
    """The plugin of one option: ours, else one that an installed package offers by entry point.

    Raises PolicyError where there is none, it cannot be loaded, or an argument is wrong."""
    make = PLUGINS.get(option.name) or _third_party(option.name)
    return make(option)


def _third_party(name: str) -> Callable[[PluginOption], Plugin]:
    found = third_party_plugins().get(name)
    if found is None:
        raise PolicyError(
            f"plugin {name!r} is not in this version; "
            f"this version has: {', '.join(sorted(PLUGINS))}"
        )
    try:
        made: Callable[[PluginOption], Plugin] = found.load()
    except Exception as error:  # whatever a stranger's module does when it is imported
        raise PolicyError(
            f"plugin {name}: {found.value} cannot be loaded: {error}; mend or remove its package"
        ) from error
    return made
