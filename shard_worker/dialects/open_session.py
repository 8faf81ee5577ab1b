"""Open a session: create the plugins that a policy names and let them register their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.kai.actions.run import run_action as run_kai_action
from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.service_rules import open_service_session
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.volcano.actions.run import run_action as run_volcano_action
from shard_worker.dialects.volcano.registry import PLUGINS, build_plugin, reads_residents
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.rule_times import OPENING, RuleTimes
from shard_worker.framework.session import Plugin, Session
from shared.policy.model import Dialect, PluginOption, Policy, PolicyError


def open_session(
    policy: Policy,
    *,
    makers: Mapping[str, Callable[[PluginOption], Plugin]] | None = None,
    times: RuleTimes | None = None,
) -> Session:
    """Create the policy's plugins and let each register, in the order of the tiers. ``makers``:
    factories of plugins that only the caller has, by name. ``times``: takes how long their rules
    take. Raises PolicyError if a plugin does not accept an argument; PluginError, one of those, if
    one from outside raises anything else.
    """
    if policy.dialect is Dialect.KAI:
        return open_service_session(policy)
    local_makers = makers or {}
    session = Session(policy)
    session.times = times
    session.reads_residents = reads_residents(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = local_makers.get(option.name, build_plugin)
            guarded = option.name not in PLUGINS and option.name not in local_makers
            with session.speaking(tier, option, guarded=guarded):
                try:
                    opening = make(option).on_session_open
                    if times is not None and times.on:
                        opening = times.timed(option.name, OPENING, opening)
                    opening(session)
                except PolicyError:
                    raise
                except Exception as error:
                    if not guarded:
                        raise
                    raise PluginError(option.name, "on_session_open", error) from error
    return session


def opened_again(session: Session) -> Session:
    """Another session of the same policy, which is used in the present call alone."""
    times = session.times
    return open_session(session.policy, times=times if times is not None and times.on else None)


def open_world_session(policy: Policy) -> Session:
    """A session over a whole world, by the rules of the policy's dialect. Raises PolicyError."""
    return open_kai_session(policy) if policy.dialect is Dialect.KAI else open_session(policy)


def run_action(session: Session, name: str) -> None:
    """Run one action of the session's dialect over its world."""
    if isinstance(session, KaiSession):
        run_kai_action(session, name)
    else:
        run_volcano_action(session, name)
