"""The reader of KAI Scheduler's configuration: ``SchedulerConfiguration``, and options.

As strict as Volcano's: every mistake is told at once, with the nearest name. What this version
takes and does not do is a warning of the policy, so that ``config check`` and the start say it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from shared.policy.kai_model import KaiOptions, KaiPolicy, SearchBudgets
from shared.policy.kai_names import (
    ACTIONS,
    ARGUMENTS,
    BUDGETS,
    CHOICES,
    DEFAULT_PLUGINS,
    FIELDS,
    GENERATORS,
    PLUGINS,
    PROCESS_OPTIONS,
    REFUSED_PLUGINS,
    TIMES,
    UNREAD_FLAGS,
    WITHOUT_EFFECT,
)
from shared.policy.kai_usage_config import read_usage
from shared.policy.model import (
    Dialect,
    PluginOption,
    Policy,
    PolicyError,
    PolicyProblem,
    read_duration,
)
from shared.policy.reading import (
    ProblemReport,
    mapping,
    one_of,
    only_known,
    read_arguments,
    shown,
    typed,
    typed_argument,
    wrong,
)
from shared.policy.third_party import third_party_plugins

_TIME = "write a duration such as 30s or 5m"
_FIELD_OF = {field.name.replace("_", "-"): field.name for field in dataclasses.fields(KaiOptions)}
"""Option -> the field that holds it."""
_SECONDS = frozenset({"default-staleness-grace-period", "stuck-in-releasing-threshold"})


def parse_kai(document: Mapping[str, object], because: str = "") -> Policy:
    """Read a KAI policy; raises PolicyError with every problem found, each by its field."""
    report, warnings = ProblemReport(), list[str]()
    only_known(report, document, FIELDS, "", "field")
    actions = _actions(report, document.get("actions"))
    tiers = _tiers(report, document.get("tiers"), warnings)
    kai = KaiPolicy(
        options=_options(report, document.get("options"), warnings),
        queue_depth=_depths(report, document.get("queueDepthPerAction"), actions),
        budgets=_budgets(report, document.get("scenarioSearchBudgets")),
        usage=read_usage(report, document.get("usageDBConfig"), warnings),
    )
    if report.problems:
        raise PolicyError(*report.problems)
    return Policy(
        actions,
        tiers,
        warnings=tuple(warnings),
        dialect=Dialect.KAI,
        dialect_because=because,
        kai=kai,
    )


# --- actions and plugins --------------------------------------------------------------------------


def _actions(report: ProblemReport, value: object) -> tuple[str, ...]:
    """The actions in order; as in KAI those of its default where none is named."""
    if value in (None, ""):
        return ACTIONS
    names: tuple[str, ...] = ()
    with report.part():
        text = typed(value, str, "actions")
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        with report.part():
            one_of(name, ACTIONS, "actions", "action")
    return names


def _tiers(
    report: ProblemReport, value: object, warnings: list[str]
) -> tuple[tuple[PluginOption, ...], ...]:
    """One tier: KAI asks its plugins as one list, however the file parts them."""
    if value in (None, []):
        return (tuple(PluginOption(name) for name in DEFAULT_PLUGINS),)
    options: dict[str, PluginOption] = {}
    place_of: dict[str, str] = {}
    for path, item in _plugins(report, value):
        with report.part():
            option = _plugin(report, item, path, warnings)
            if option.name in place_of:
                message = f"plugin {option.name!r} is named at {place_of[option.name]} already; "
                message += "leave one of the two out"
                raise PolicyError(PolicyProblem(f"{path}.name", message, repr(option.name)))
            place_of[option.name] = path
            options[option.name] = option
    if {"gpupack", "gpuspread"} <= options.keys():
        warnings.append("gpupack and gpuspread: both score, so that their wishes cancel out")
    return (tuple(options.values()),)


def _plugins(report: ProblemReport, value: object) -> Iterator[tuple[str, object]]:
    """(path, entry) of each plugin of all tiers."""
    tiers: list[object] = []
    with report.part():
        tiers = typed(value, list, "tiers")
    for i, item in enumerate(tiers):
        plugins: list[object] = []
        with report.part():
            tier = mapping(item, f"tiers[{i}]")
            only_known(report, tier, {"plugins"}, f"tiers[{i}].", "field")
            plugins = typed(tier.get("plugins") or [], list, f"tiers[{i}].plugins")
        yield from ((f"tiers[{i}].plugins[{j}]", plugin) for j, plugin in enumerate(plugins))


def _plugin(report: ProblemReport, value: object, path: str, warnings: list[str]) -> PluginOption:
    plugin = mapping(value, path)
    name = plugin.get("name")
    if not isinstance(name, str) or not name:
        raise wrong(f"{path}.name", name, "is not the name of a plugin")
    if name in REFUSED_PLUGINS:
        message = f"plugin {name!r} is KAI's, but not in this version ({REFUSED_PLUGINS[name]}); "
        raise PolicyError(PolicyProblem(f"{path}.name", message + "leave it out", repr(name)))
    others = third_party_plugins()
    one_of(name, (*PLUGINS, *others), f"{path}.name", "plugin")
    only_known(report, plugin, UNREAD_FLAGS | {"name", "arguments"}, f"{path}.", "field")
    for flag in sorted(UNREAD_FLAGS & plugin.keys()):
        with report.part():
            if typed(plugin[flag], bool, f"{path}.{flag}"):
                warnings.append(f"{name}: {flag}: KAI never reads it, and neither do we")
    if name not in PLUGINS:
        return PluginOption(name, mapping(plugin.get("arguments") or {}, f"{path}.arguments"))
    at = f"{path}.arguments"
    types = ARGUMENTS.get(name, {})
    arguments = read_arguments(report, plugin.get("arguments"), types, at, prefixes={})
    for key, argument in arguments.items():
        with report.part():
            _check_argument(name, key, argument, f"{at}.{key}")
    return PluginOption(name, arguments)


def _check_argument(plugin: str, key: str, value: object, path: str) -> None:
    choices = CHOICES.get((plugin, key))
    if choices is not None and value not in choices:
        raise wrong(path, value, f"is not one of {', '.join(choices)}")
    if (plugin, key) in TIMES:
        _seconds(value, path)
    if isinstance(value, int | float) and value < 0:
        raise wrong(path, value, "is negative; write 0 or more")
    if key == "relcaimerSaturationMultiplier" and isinstance(value, int | float) and value < 1:
        raise wrong(path, value, "is below 1; write 1 or more")


# --- options --------------------------------------------------------------------------------------


def _options(report: ProblemReport, value: object, warnings: list[str]) -> KaiOptions:
    """Options by KAI's names; text that reads as a number or a truth value is one."""
    values: dict[str, object] = {}
    with report.part():
        values = mapping(value or {}, "options")
    option_names = {**_FIELD_OF, **PROCESS_OPTIONS, **WITHOUT_EFFECT}
    only_known(report, values, option_names, "options.", "option")
    fields: dict[str, object] = {}
    for name, option in values.items():
        with report.part():
            if name in PROCESS_OPTIONS:
                _process_option(name, option)
            elif name in WITHOUT_EFFECT:
                warnings.append(f"option {name} has no effect here: {WITHOUT_EFFECT[name]}")
            elif name in _FIELD_OF:
                fields[_FIELD_OF[name]] = _option(name, option)
    return KaiOptions(**fields)  # type: ignore[arg-type]  # each was read by the type of its default


def _option(name: str, value: object) -> object:
    path = f"options.{name}"
    if name in _SECONDS:
        return _seconds(value, path, negative=name == "default-staleness-grace-period")
    default = getattr(KaiOptions(), _FIELD_OF[name])
    return typed_argument(value, type(default), path)


def _process_option(name: str, value: object) -> None:
    """Refuse one that says something else than KAI's default."""
    default, ours = PROCESS_OPTIONS[name]
    if str(value).lower() != str(default).lower():
        message = f"{shown(value)} would be read by nobody here; leave it out (ours: {ours})"
        raise PolicyError(PolicyProblem(f"options.{name}", message, shown(value)))


# --- depths and budgets ---------------------------------------------------------------------------


def _depths(report: ProblemReport, value: object, actions: Collection[str]) -> dict[str, int]:
    depths: dict[str, int] = {}
    with report.part():
        for name, depth in mapping(value or {}, "queueDepthPerAction").items():
            path = f"queueDepthPerAction.{name}"
            with report.part():
                one_of(name, ACTIONS, "queueDepthPerAction", "action")
                if name not in actions:
                    message = f"action {name!r} is not among the policy's; add it, or leave it out"
                    raise PolicyError(PolicyProblem(path, message, repr(name)))
                if (number := typed(depth, int, path)) < 1:
                    raise wrong(path, depth, "is not at least 1; leave it out to try all")
                depths[name] = number
    return depths


def _budgets(report: ProblemReport, value: object) -> SearchBudgets:
    at = "scenarioSearchBudgets"
    fields: dict[str, object] = {}
    with report.part():
        fields = mapping(value or {}, at)
    only_known(report, fields, BUDGETS, f"{at}.", "field")
    usual = SearchBudgets()
    action, actions = _bounds(report, fields, "maxActionSearchDuration", ACTIONS, "action")
    generator, generators = _bounds(
        report, fields, "maxGeneratorSearchDuration", GENERATORS, "generator"
    )
    job = least = None
    with report.part():
        job = _bound(fields, "maxJobSearchDuration")
    with report.part():
        least = _bound(fields, "minJobSearchDuration")
    return SearchBudgets(
        action=usual.action if action is None else action,
        actions=actions,
        job=usual.job if job is None else job,
        least_of_a_job=usual.least_of_a_job if least is None else least,
        generator=usual.generator if generator is None else generator,
        generators={**usual.generators, **generators},
    )


def _bounds(
    report: ProblemReport,
    fields: Mapping[str, object],
    name: str,
    names: Collection[str],
    kind: str,
) -> tuple[float | None, dict[str, float]]:
    """(the default, the bound of each that has its own)."""
    at = f"scenarioSearchBudgets.{name}"
    default: float | None = None
    own: dict[str, float] = {}
    with report.part():
        for key, value in mapping(fields.get(name) or {}, at).items():
            with report.part():
                if key == "default":
                    default = _seconds(value, f"{at}.{key}")
                else:
                    one_of(key, names, at, kind)
                    own[key] = _seconds(value, f"{at}.{key}")
    return default, own


def _bound(fields: Mapping[str, object], name: str) -> float | None:
    value = fields.get(name)
    return None if value is None else _seconds(value, f"scenarioSearchBudgets.{name}")


# --- pieces ---------------------------------------------------------------------------------------


def _seconds(value: object, path: str, *, negative: bool = False) -> float:
    """A duration in seconds. ``negative``: it may begin with a minus."""
    text = value if isinstance(value, str) else ""
    sign = -1.0 if negative and text.startswith("-") else 1.0
    seconds = 0.0 if text == "0" else read_duration(text[1:] if sign < 0 else text)
    if value == 0 and not isinstance(value, bool):
        seconds = 0.0
    if seconds is None:
        raise wrong(path, value, f"is not a duration; {_TIME}")
    return sign * seconds
