"""Open a session: create the plugins that a policy names and let them register their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.volcano.registry import build_plugin, reads_residents
from shard_worker.framework.session import Plugin, Session
from shared.policy.model import PluginOption, Policy


def open_session(
    policy: Policy, *, makers: Mapping[str, Callable[[PluginOption], Plugin]] | None = None
) -> Session:
    """Create the policy's plugins and let each register, in the order of the tiers. ``makers``:
    factories of plugins that only the caller has, by name. Raises PolicyError if a plugin does not
    accept an argument.
    """
    local_makers = makers or {}
    session = Session(policy)
    session.reads_residents = reads_residents(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = local_makers.get(option.name, build_plugin)
            with session.speaking(tier, option):
                make(option).on_session_open(session)
    return session
