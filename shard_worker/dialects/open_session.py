"""Open a session: make the plugins that a policy names, and let them register."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.volcano.registry import build_plugin
from shard_worker.framework.session import Plugin, Session
from shared.policy.model import PluginOption, Policy


def open_session(
    policy: Policy, *, makers: Mapping[str, Callable[[PluginOption], Plugin]] | None = None
) -> Session:
    """Create the plugins of a policy and let each register, in the order of the tiers.

    ``makers``: plugins that only the caller knows, by name.
    Raises PolicyError where a plugin does not accept an argument.
    """
    local_makers = makers or {}
    session = Session(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = local_makers.get(option.name, build_plugin)
            with session.speaking(tier, option):
                make(option).on_session_open(session)
    return session
