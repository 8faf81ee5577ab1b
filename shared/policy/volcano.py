"""The reader of policies in Volcano's file format: actions, and plugins with their arguments.

It is strict. Volcano ignores unknown names; here a misspelt switch or argument is an error that
names the field and the nearest valid name, because a policy that silently means something else is
worse than a refused one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shared.policy.metrics_source import INTERVAL, MetricsSource, SourceError, read_metrics_source
from shared.policy.model import PluginOption, Policy, PolicyError, PolicyProblem, read_duration
from shared.policy.reading import (
    ProblemReport,
    listed,
    mapping,
    meant,
    nearest,
    only_known,
    read_arguments,
    typed,
    wrong,
)
from shared.policy.third_party import third_party_plugins
from shared.policy.volcano_names import (
    ACTION_ARGUMENTS,
    ACTIONS_HERE,
    ARGUMENT_PREFIXES,
    ARGUMENTS,
    FLAGS,
    PLUGINS_HERE,
    VOLCANO_ACTIONS,
    VOLCANO_PLUGINS,
)

FIELDS = frozenset({"actions", "tiers", "configurations", "metrics"})

DEFAULT_POLICY = Policy(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(
            PluginOption(name)
            for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder")
        ),
    ),
)
"""The policy without a file: Volcano's built-in configuration."""


def parse_volcano(document: Mapping[str, object], because: str = "") -> Policy:
    """Read Volcano's policy; raises PolicyError with every problem found, each by its field."""
    report = ProblemReport()
    only_known(report, document, FIELDS, "", "field")
    actions = _actions(report, document.get("actions"))
    tiers = _tiers(report, document.get("tiers"))
    configurations = _configurations(report, document.get("configurations"))
    metrics = _metrics(report, document.get("metrics"))
    if report.problems:
        raise PolicyError(*report.problems)
    return Policy(actions, tiers, configurations, metrics=metrics, dialect_because=because)


def _actions(report: ProblemReport, value: object) -> tuple[str, ...]:
    names: tuple[str, ...] = ()
    with report.part():
        example = f'actions: "{ACTIONS_HERE[0]}"'
        if not isinstance(value, str):
            raise wrong("actions", value, f"is not text; name them as in {example}")
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names:
            raise PolicyError(PolicyProblem("actions", f"names none; write {example}", repr(value)))
    for name in names:
        with report.part():
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, "actions", "action")
    return names


def _tiers(report: ProblemReport, value: object) -> tuple[tuple[PluginOption, ...], ...]:
    tiers: list[tuple[PluginOption, ...]] = []
    place_of: dict[str, str] = {}
    for i, item in enumerate(listed(report, value, "tiers")):
        tiers.append(())
        with report.part():
            tier = mapping(item, f"tiers[{i}]")
            only_known(report, tier, {"plugins"}, f"tiers[{i}].", "field")
            tiers[i] = _tier(report, tier.get("plugins"), f"tiers[{i}].plugins", place_of)
    return tuple(tiers)


def _tier(
    report: ProblemReport, value: object, path: str, place_of: dict[str, str]
) -> tuple[PluginOption, ...]:
    """Read one tier. ``place_of``: plugin -> path where it was already named; updated."""
    options: list[PluginOption] = []
    for j, plugin in enumerate(listed(report, value, path)):
        at = f"{path}[{j}]"
        with report.part():
            option = _plugin(report, plugin, at)
            if option.name in place_of:
                message = f"plugin {option.name!r} is named at {place_of[option.name]} already; "
                message += "leave one of the two out"
                raise PolicyError(PolicyProblem(f"{at}.name", message, repr(option.name)))
            place_of[option.name] = at
            options.append(option)
    return tuple(options)


def _plugin(report: ProblemReport, value: object, path: str) -> PluginOption:
    plugin = mapping(value, path)
    name = plugin.get("name")
    if not isinstance(name, str) or not name:
        raise wrong(f"{path}.name", name, "is not the name of a plugin")
    others = third_party_plugins()
    _here(name, (*PLUGINS_HERE, *others), VOLCANO_PLUGINS, f"{path}.name", "plugin")
    only_known(report, plugin, FLAGS | {"name", "arguments"}, f"{path}.", "switch")
    flags: dict[str, bool] = {}
    for flag in FLAGS & plugin.keys():
        with report.part():
            flags[flag] = typed(plugin[flag], bool, f"{path}.{flag}")
    if name not in PLUGINS_HERE:
        own_arguments = mapping(plugin.get("arguments") or {}, f"{path}.arguments")
        return PluginOption(name=name, arguments=own_arguments, flags=flags)
    arguments = read_arguments(
        report,
        plugin.get("arguments"),
        ARGUMENTS.get(name, {}),
        f"{path}.arguments",
        prefixes=ARGUMENT_PREFIXES.get(name, {}),
    )
    return PluginOption(name=name, arguments=arguments, flags=flags)


def _configurations(report: ProblemReport, value: object) -> dict[str, dict[str, object]]:
    configurations: dict[str, dict[str, object]] = {}
    items = listed(report, value, "configurations") if value not in (None, []) else []
    for i, item in enumerate(items):
        path = f"configurations[{i}]"
        with report.part():
            entry = mapping(item, path)
            only_known(report, entry, {"name", "arguments"}, f"{path}.", "field")
            name = typed(entry.get("name"), str, f"{path}.name")
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, f"{path}.name", "action")
            argument_types = ACTION_ARGUMENTS.get(name, {})
            values = entry.get("arguments")
            configurations[name] = read_arguments(
                report, values, argument_types, f"{path}.arguments", prefixes={}
            )
    return configurations


def _metrics(report: ProblemReport, value: object) -> MetricsSource | None:
    source: MetricsSource | None = None
    with report.part():
        fields = mapping(value or {}, "metrics")
        interval = fields.get("interval", f"{INTERVAL:g}s")
        seconds = read_duration(interval) if isinstance(interval, str) else None
        try:
            source = read_metrics_source(fields, seconds)
        except SourceError as error:
            path, _, message = str(error).partition(": ")
            raise PolicyError(PolicyProblem(path, message)) from error
    return source


def _here(
    name: str, supported: Collection[str], volcano: Collection[str], path: str, kind: str
) -> None:
    if name in supported:
        return
    has = f"this version has: {', '.join(sorted(supported))}"
    if name in volcano:
        message = f"{kind} {name!r} is Volcano's, but not in this version; {has}"
        raise PolicyError(PolicyProblem(path, message, repr(name)))
    near = nearest(name, volcano)
    message = f"unknown {kind} {name!r}; {meant(near) or has}"
    raise PolicyError(PolicyProblem(path, message, repr(name), near))
