"""Open a session: create the plugins that a policy names and let them register their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.volcano.registry import PLUGINS, build_plugin, reads_residents
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.session import Plugin, Session
from shared.policy.model import Dialect, PluginOption, Policy, PolicyError, PolicyProblem

NOT_OPENED = (
    "KAI's rules are read and checked by this version, but no cluster is scheduled by them yet: "
    "quadrant up refuses this policy"
)


def open_session(
    policy: Policy, *, makers: Mapping[str, Callable[[PluginOption], Plugin]] | None = None
) -> Session:
    """Create the policy's plugins and let each register, in the order of the tiers. ``makers``:
    factories of plugins that only the caller has, by name. Raises PolicyError if a plugin does not
    accept an argument; PluginError, one of those, if one from outside raises anything else.
    """
    if policy.dialect is Dialect.KAI:
        raise PolicyError(PolicyProblem("dialect", f"{NOT_OPENED} ({policy.dialect_because})"))
    local_makers = makers or {}
    session = Session(policy)
    session.reads_residents = reads_residents(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = local_makers.get(option.name, build_plugin)
            guarded = option.name not in PLUGINS and option.name not in local_makers
            with session.speaking(tier, option, guarded=guarded):
                try:
                    make(option).on_session_open(session)
                except PolicyError:
                    raise
                except Exception as error:
                    if not guarded:
                        raise
                    raise PluginError(option.name, "on_session_open", error) from error
    return session
