"""The reader of policies in Volcano's file format: actions, and plugins with their arguments.

It is strict. Volcano ignores unknown names; here a misspelt switch or argument is an error that
names the field and the nearest valid name, because a policy that silently means something else is
worse than a refused one.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import yaml

from shared.policy.metrics_source import INTERVAL, MetricsSource, SourceError, read_metrics_source
from shared.policy.model import PluginOption, Policy, PolicyError, PolicyProblem, read_duration
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

T = TypeVar("T")


class _Report:
    """Collects the problems of all parts of a file, so that one run reports them all."""

    def __init__(self) -> None:
        self.problems: list[PolicyProblem] = []

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Read one part: its first problem does not stop the reading of later parts."""
        try:
            yield
        except PolicyError as error:
            self.problems += error.problems


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


def parse_policy(source: str | Mapping[str, object]) -> Policy:
    """Read a policy from YAML text, or from the mapping that such text contains.

    Raises PolicyError with every problem found, each by field (``tiers[1].plugins[0].name``).
    """
    document = _mapping(load_yaml(source) if isinstance(source, str) else source, "the policy")
    report = _Report()
    _known(report, document, {"actions", "tiers", "configurations", "metrics"}, "", "field")
    actions = _actions(report, document.get("actions"))
    tiers = _tiers(report, document.get("tiers"))
    configurations = _configurations(report, document.get("configurations"))
    metrics = _metrics(report, document.get("metrics"))
    if report.problems:
        raise PolicyError(*report.problems)
    return Policy(actions, tiers, configurations, metrics=metrics)


class _Strict(yaml.SafeLoader):
    """Refuses duplicate keys in a mapping, since the first value would silently be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in keys:
                    problem = f"the key {key.value!r} stands there twice; leave one of the two out"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                keys.add(key.value)
        return super().construct_mapping(node, deep=deep)


def load_yaml(text: str) -> object:
    """One YAML document, without duplicate keys. Raises PolicyError with line and column."""
    try:
        document: object = yaml.load(text, _Strict)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise PolicyError(f"the policy is not YAML{where}: {problem}") from None
    except RecursionError:
        raise PolicyError("the policy is nested too deeply to be one") from None
    return document


def _actions(report: _Report, value: object) -> tuple[str, ...]:
    names: tuple[str, ...] = ()
    with report.part():
        example = f'actions: "{ACTIONS_HERE[0]}"'
        if not isinstance(value, str):
            raise _wrong("actions", value, f"is not text; name them as in {example}")
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names:
            raise PolicyError(PolicyProblem("actions", f"names none; write {example}", repr(value)))
    for name in names:
        with report.part():
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, "actions", "action")
    return names


def _tiers(report: _Report, value: object) -> tuple[tuple[PluginOption, ...], ...]:
    tiers: list[tuple[PluginOption, ...]] = []
    place_of: dict[str, str] = {}
    for i, item in enumerate(_list(report, value, "tiers")):
        tiers.append(())
        with report.part():
            tier = _mapping(item, f"tiers[{i}]")
            _known(report, tier, {"plugins"}, f"tiers[{i}].", "field")
            tiers[i] = _tier(report, tier.get("plugins"), f"tiers[{i}].plugins", place_of)
    return tuple(tiers)


def _tier(
    report: _Report, value: object, path: str, place_of: dict[str, str]
) -> tuple[PluginOption, ...]:
    """Read one tier. ``place_of``: plugin -> path where it was already named; updated."""
    options: list[PluginOption] = []
    for j, plugin in enumerate(_list(report, value, path)):
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


def _plugin(report: _Report, value: object, path: str) -> PluginOption:
    plugin = _mapping(value, path)
    name = plugin.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(f"{path}.name", name, "is not the name of a plugin")
    others = third_party_plugins()
    _here(name, (*PLUGINS_HERE, *others), VOLCANO_PLUGINS, f"{path}.name", "plugin")
    _known(report, plugin, FLAGS | {"name", "arguments"}, f"{path}.", "switch")
    flags: dict[str, bool] = {}
    for flag in FLAGS & plugin.keys():
        with report.part():
            flags[flag] = _typed(plugin[flag], bool, f"{path}.{flag}")
    if name not in PLUGINS_HERE:
        own_arguments = _mapping(plugin.get("arguments") or {}, f"{path}.arguments")
        return PluginOption(name=name, arguments=own_arguments, flags=flags)
    arguments = _arguments(
        report,
        plugin.get("arguments"),
        ARGUMENTS.get(name, {}),
        f"{path}.arguments",
        prefixes=ARGUMENT_PREFIXES.get(name, {}),
    )
    return PluginOption(name=name, arguments=arguments, flags=flags)


def _configurations(report: _Report, value: object) -> dict[str, dict[str, object]]:
    configurations: dict[str, dict[str, object]] = {}
    items = _list(report, value, "configurations") if value not in (None, []) else []
    for i, item in enumerate(items):
        path = f"configurations[{i}]"
        with report.part():
            entry = _mapping(item, path)
            _known(report, entry, {"name", "arguments"}, f"{path}.", "field")
            name = _typed(entry.get("name"), str, f"{path}.name")
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, f"{path}.name", "action")
            argument_types = ACTION_ARGUMENTS.get(name, {})
            values = entry.get("arguments")
            configurations[name] = _arguments(
                report, values, argument_types, f"{path}.arguments", prefixes={}
            )
    return configurations


def _metrics(report: _Report, value: object) -> MetricsSource | None:
    source: MetricsSource | None = None
    with report.part():
        fields = _mapping(value or {}, "metrics")
        interval = fields.get("interval", f"{INTERVAL:g}s")
        seconds = read_duration(interval) if isinstance(interval, str) else None
        try:
            source = read_metrics_source(fields, seconds)
        except SourceError as error:
            path, _, message = str(error).partition(": ")
            raise PolicyError(PolicyProblem(path, message)) from error
    return source


def _arguments(
    report: _Report, value: object, types: dict[str, type], path: str, *, prefixes: dict[str, type]
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    with report.part():
        for key, argument in _mapping(value if value is not None else {}, path).items():
            with report.part():
                kind = _kind(key, types, prefixes, path)
                arguments[key] = _argument(argument, kind, f"{path}.{key}")
    return arguments


def _argument(argument: object, kind: type, path: str) -> object:
    """An argument converted to its type. As in Volcano, text that reads as a number or bool
    is one."""
    if isinstance(argument, str) and kind is not str:
        read = _reads(argument.strip(), kind)
        argument = argument if read is None else read
    if kind is float and isinstance(argument, int):
        kind = int
    if kind is int and isinstance(argument, float) and argument.is_integer():
        argument = int(argument)  # 10.0, as a file that went by way of JSON has it
    return _typed(argument, kind, path)


def _reads(text: str, kind: type) -> object:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower())
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


def _kind(key: str, types: dict[str, type], prefixes: dict[str, type], path: str) -> type:
    """The required type of an argument. Raises PolicyError if the plugin has no such argument."""
    if key in types:
        return types[key]
    for prefix, kind in prefixes.items():
        if key.startswith(prefix) and key != prefix:
            return kind
    near = _nearest(key, [*types, *prefixes])
    takes = f"it takes {', '.join(sorted(types))}" if types else "it takes no arguments"
    message = f"unknown argument {key!r}; {_meant(near) or takes}"
    raise PolicyError(PolicyProblem(path, message, repr(key), near))


# --- pieces ---------------------------------------------------------------------------------------

WORDS: dict[type, str] = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
}


def _typed(value: object, kind: type[T], path: str) -> T:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise _wrong(path, value, f"is not {WORDS[kind]}")


def _mapping(value: object, path: str) -> dict[str, object]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise _wrong(path, value, "is not a mapping of names to values")


def _list(report: _Report, value: object, path: str) -> list[object]:
    """The entries of a list. If the value is not a nonempty list, record the problem and
    return []."""
    if isinstance(value, list) and value:
        return value
    report.problems += _wrong(path, value, "is not a list with at least one entry").problems
    return []


def _known(
    report: _Report, mapping: Mapping[str, object], names: Collection[str], path: str, kind: str
) -> None:
    for key in mapping:
        if key not in names:
            near = _nearest(key, names)
            hint = _meant(near) or f"known: {', '.join(sorted(names))}"
            message = f"unknown {kind}; {hint}"
            report.problems.append(
                PolicyProblem(f"{path}{key}", message, _shown(mapping[key]), near)
            )


def _here(
    name: str, supported: Collection[str], volcano: Collection[str], path: str, kind: str
) -> None:
    if name in supported:
        return
    has = f"this version has: {', '.join(sorted(supported))}"
    if name in volcano:
        message = f"{kind} {name!r} is Volcano's, but not in this version; {has}"
        raise PolicyError(PolicyProblem(path, message, repr(name)))
    near = _nearest(name, volcano)
    message = f"unknown {kind} {name!r}; {_meant(near) or has}"
    raise PolicyError(PolicyProblem(path, message, repr(name), near))


def _wrong(path: str, value: object, complaint: str) -> PolicyError:
    return PolicyError(PolicyProblem(path, f"{_shown(value)} {complaint}", _shown(value)))


def _nearest(name: str, names: Collection[str]) -> str:
    lower = {candidate.lower(): candidate for candidate in sorted(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""


def _meant(near: str) -> str:
    return f"did you mean {near!r}?" if near else ""


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
