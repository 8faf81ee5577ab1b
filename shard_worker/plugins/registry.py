"""Which plugins this version has, and how one is made from its option in the policy."""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.session import Plugin
from shared.policy import PluginOption, PolicyError

PLUGINS: dict[str, Callable[[dict[str, object]], Plugin]] = {}
"""Name in the policy file -> maker, which takes the plugin's arguments."""


def build_plugin(option: PluginOption) -> Plugin:
    """The plugin of one option. Raises PolicyError where this version has no such plugin."""
    make = PLUGINS.get(option.name)
    if make is None:
        raise PolicyError(
            f"plugin {option.name!r} is not in this version; "
            f"this version has: {', '.join(sorted(PLUGINS))}"
        )
    return make(option.arguments)
