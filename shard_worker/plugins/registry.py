"""Which plugins this version has, and how one is made from its option in the policy."""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.plugins.binpack import Binpack
from shard_worker.plugins.conformance import Conformance
from shard_worker.plugins.drf import Drf
from shard_worker.plugins.gang import Gang
from shard_worker.plugins.nodeorder import NodeOrder
from shard_worker.plugins.predicates import Predicates
from shard_worker.plugins.priority import Priority
from shard_worker.plugins.proportion import Proportion
from shard_worker.session import Plugin
from shared.policy import PluginOption, PolicyError

PLUGINS: dict[str, Callable[[PluginOption], Plugin]] = {
    "binpack": Binpack,
    "conformance": Conformance,
    "drf": Drf,
    "gang": Gang,
    "nodeorder": NodeOrder,
    "predicates": Predicates,
    "priority": Priority,
    "proportion": Proportion,
}
"""Name in the policy file -> maker."""


def build_plugin(option: PluginOption) -> Plugin:
    """The plugin of one option. Raises PolicyError where there is none or an argument is wrong."""
    make = PLUGINS.get(option.name)
    if make is None:
        raise PolicyError(
            f"plugin {option.name!r} is not in this version; "
            f"this version has: {', '.join(sorted(PLUGINS))}"
        )
    return make(option)
