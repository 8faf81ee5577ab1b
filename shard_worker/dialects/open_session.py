"""Open a session: create the plugins that a policy names and let them register their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.kai.actions.run import run_action as run_kai_action
from shard_worker.dialects.kai.evictions import SearchRecord
from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.rules.budget import Clock
from shard_worker.dialects.kai.service.rules import open_service_session
from shard_worker.dialects.kai.service.turn_session import TurnSession
from shard_worker.dialects.kai.service.turn_session import run_for_job as run_kai_turn
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.volcano.actions.run import run_action as run_volcano_action
from shard_worker.dialects.volcano.actions.run import run_for_job as run_volcano_for_job
from shard_worker.dialects.volcano.registry import PLUGINS, build_plugin, reads_residents
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.rule_times import OPENING, RuleTimes
from shard_worker.framework.session import Plugin, Session
from shard_worker.session_model.job import SessionJob
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


def turn_session(
    session: Session,
    *,
    clock: Clock,
    on_search: Callable[[SearchRecord], None],
    lasts: bool = False,
) -> Session:
    """A session for turns in a worker, by the policy of the worker's own. ``clock``: by which
    searches for victims are bounded; ``on_search`` takes each of them. ``lasts``: it is entered for
    turn after turn, so that its rules are timed in the calls to come. Raises PolicyError."""
    if session.policy.dialect is Dialect.KAI:
        opened = TurnSession(session.policy)
        opened.clock, opened.on_search = clock, on_search
        return open_kai_session(session.policy, opened)
    return open_session(session.policy, times=session.times) if lasts else opened_again(session)


def end_session(session: Session) -> None:
    """Take apart a session, which nobody uses any more: it is full of circles (rules know their
    plugin, which knows the session), which the garbage collector would have to find."""
    vars(session).clear()


def run_for_job(session: Session, job: SessionJob, name: str, *, elastic: int) -> int:
    """Run one action for a job; returns how many operations its first step committed, 0 where all
    of them stand or fall together.

    Volcano's allocate takes one further step for each elastic task of the turn, as long as each is
    bound; a turn of KAI's is one step.
    """
    if isinstance(session, TurnSession):
        run_kai_turn(session, job, name)
        return 0
    elastic -= session.ready(job)
    run_volcano_for_job(session, job, name)
    first = committed = len(session.committed)
    while name == "allocate" and committed and elastic > 0:
        run_volcano_for_job(session, job, name)
        if len(session.committed) == committed:
            break
        committed = len(session.committed)
        elastic -= 1
    return first


def binds_as_placed(session: Session, job: SessionJob) -> bool:
    """Whether what the session allocated is bound. In Volcano a job that is not ready only holds
    its places; KAI's turn made promises of them itself."""
    return isinstance(session, TurnSession) or session.ready(job)


def run_action(session: Session, name: str) -> None:
    """Run one action of the session's dialect over its world."""
    if isinstance(session, KaiSession):
        run_kai_action(session, name)
    else:
        run_volcano_action(session, name)
