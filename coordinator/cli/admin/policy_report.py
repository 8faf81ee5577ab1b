"""Report on a policy: which plugin acts at which point, with which arguments, and what is ignored.

It is asked of the plugins themselves: each is made from its option and registers with a listener.
So the report cannot tell other points or other defaults than those the scheduler runs with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.registry import build_plugin
from shard_worker.framework.extension_points import EXTENSION_POINTS, Half
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import DEMANDS, PREFERENCES, DemandEntry, Served
from shared.codec.packed import replace
from shared.policy.kai_model import KaiPolicy
from shared.policy.model import Dialect, PluginOption, Policy, PolicyError, PolicyProblem
from shared.policy.volcano_names import ARGUMENTS
from shared.secrets.credentials import hide_credentials, without_credentials

ASKED_BY = {Half.ORDER: "coordinator", Half.PLACE: "worker", Half.BOTH: "both"}
"""Half -> the process that asks."""


@dataclass(frozen=True, slots=True)
class Argument:
    """``value`` is the file's, else the default, which only the plugin knows."""

    name: str
    value: Any
    default: Any
    given: bool
    """The file sets it."""
    asked: bool
    """The plugin asks for it; where it does not, setting it has no effect."""


@dataclass(frozen=True, slots=True)
class PluginReport:
    name: str
    points: tuple[str, ...]
    """Where it speaks, in the order of the table of extension points."""
    off: tuple[tuple[str, str], ...]
    """(point, switch): where it would speak, had the file not switched it off."""
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The report for people; addresses in it have no credentials."""

    policy: Policy
    tiers: tuple[tuple[PluginReport, ...], ...]
    warnings: tuple[str, ...]
    not_served: tuple[DemandEntry, ...]
    """The fields of objects that no plugin of it serves; those that jobs wait for come first."""

    def as_json(self) -> dict[str, Any]:
        """The report for scripts, with the names that our API uses."""
        return {
            "dialect": self.policy.dialect.value,
            "dialectBecause": self.policy.dialect_because,
            "actions": list(self.policy.actions),
            "tiers": [[_plugin_json(plugin) for plugin in tier] for tier in self.tiers],
            "configurations": self.policy.configurations,
            **({} if self.policy.kai is None else {"kai": _kai_json(self.policy.kai)}),
            "warnings": list(self.warnings),
            "notServed": [
                {"field": entry.field, "of": entry.kinds, "without": entry.without}
                for entry in self.not_served
            ],
        }


def _plugin_json(plugin: PluginReport) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "points": [
            {"name": point, "askedBy": ASKED_BY[EXTENSION_POINTS[point].half]}
            for point in plugin.points
        ],
        "switchedOff": [{"name": point, "switch": switch} for point, switch in plugin.off],
        "arguments": [
            {"name": a.name, "value": a.value, "default": a.default, "given": a.given}
            for a in plugin.arguments
        ],
    }


def _kai_json(kai: KaiPolicy) -> dict[str, Any]:
    return {
        "options": {name.replace("_", "-"): value for name, value in asdict(kai.options).items()},
        "queueDepthPerAction": dict(kai.queue_depth),
        "scenarioSearchBudgets": asdict(kai.budgets),
        "usageDBConfig": without_credentials(kai.usage and kai.usage.written),
    }


def report(policy: Policy) -> PolicyReport:
    """Raises PolicyError with the problem of every plugin that cannot be made."""
    if policy.dialect is Dialect.KAI:
        return _of_kai(policy)
    session = Session(policy)
    tiers: list[list[PluginReport]] = []
    problems: list[PolicyProblem] = []
    for tier, options in enumerate(policy.tiers):
        tiers.append([])
        for at, option in enumerate(options):
            try:
                plugin = _plugin(session, tier, option)
                tiers[tier].append(plugin)
                session.warnings += _unasked(plugin, session.warnings)
            except PolicyError as error:
                path = f"tiers[{tier}].plugins[{at}]"
                problems += [_at(path, problem) for problem in error.problems]
    if problems:
        raise PolicyError(*problems)
    shown = replace(policy, configurations=without_credentials(policy.configurations))
    warnings = tuple(map(hide_credentials, session.warnings))
    not_served = tuple(_not_served(session.eligibility.served))
    return PolicyReport(shown, tuple(map(tuple, tiers)), warnings, not_served)


def _of_kai(policy: Policy) -> PolicyReport:
    """A policy of KAI's. KAI has no switches, and its plugins no defaults that differ from
    file to file."""
    session = open_session(policy)
    tiers = tuple(
        tuple(
            PluginReport(
                option.name,
                points=_spoken(session, option.name),
                off=(),
                arguments=_given(option.arguments),
            )
            for option in tier
        )
        for tier in policy.tiers
    )
    return PolicyReport(policy, tiers, tuple(session.warnings), not_served=())


def _spoken(session: Session, plugin: str) -> tuple[str, ...]:
    return tuple(point for point in EXTENSION_POINTS if point in session.spoken.get(plugin, ()))


def _given(arguments: dict[str, object]) -> tuple[Argument, ...]:
    return tuple(
        Argument(name, value, None, given=True, asked=True) for name, value in arguments.items()
    )


def _not_served(served: Collection[Served]) -> Iterator[DemandEntry]:
    for demands in (DEMANDS, PREFERENCES):
        yield from (entry for demand, entry in demands.items() if demand not in served)


def _unasked(plugin: PluginReport, warnings: list[str]) -> list[str]:
    """Arguments that the file sets and the plugin never asks for, unless it said so itself."""
    unasked = [f"{plugin.name}: {a.name}:" for a in plugin.arguments if a.given and not a.asked]
    return [
        f"{start} has no effect in this version"
        for start in unasked
        if not any(warning.startswith(start) for warning in warnings)
    ]


def _at(path: str, problem: PolicyProblem) -> PolicyProblem:
    return PolicyProblem(problem.field or path, problem.message, problem.value, problem.nearest)


def _plugin(session: Session, tier: int, option: PluginOption) -> PluginReport:
    arguments = _RecordedArguments(option.arguments)
    plugin = build_plugin(PluginOption(option.name, arguments, option.flags))
    with session.speaking(tier, option):
        plugin.on_session_open(session)
    spoken = [point for point in EXTENSION_POINTS if point in session.spoken.get(option.name, ())]
    off = {p: f for p in spoken if (f := EXTENSION_POINTS[p].flag) and not option.enabled(f)}
    return PluginReport(
        name=option.name,
        points=tuple(point for point in spoken if point not in off),
        off=tuple(off.items()),
        arguments=_arguments(option, arguments.defaults),
    )


def _arguments(option: PluginOption, defaults: dict[str, Any]) -> tuple[Argument, ...]:
    written = option.arguments
    names = dict.fromkeys([*ARGUMENTS.get(option.name, {}), *defaults, *written])
    return tuple(
        Argument(
            name=name,
            value=without_credentials(written.get(name, defaults.get(name))),
            default=defaults.get(name),
            given=name in written,
            asked=name in defaults,
        )
        for name in names
        if name in defaults or name in written
    )


class _RecordedArguments(dict[str, object]):
    """A plugin's arguments that note which of them it asks for, and with which default."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self.defaults: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.defaults.setdefault(key, default)
        return super().get(key, default)
