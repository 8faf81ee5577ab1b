"""The scheduler's policy: which actions run and which plugins speak, in Volcano's file format.

The file is read strictly. Volcano ignores what it does not know; here a misspelt switch or argument
is an error that names the field and the nearest name, because a policy that silently means
something else is worse than one that is refused.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml

from shared.metrics_source import INTERVAL, MetricsSource, SourceError, read_metrics_source
from shared.policy_names import (
    ACTION_ARGUMENTS,
    ACTIONS_HERE,
    ARGUMENT_PREFIXES,
    ARGUMENTS,
    FLAGS,
    OFF_BY_DEFAULT,
    PLUGINS_HERE,
    VOLCANO_ACTIONS,
    VOLCANO_PLUGINS,
)
from shared.third_party import third_party_plugins

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a policy: where, what (with the remedy), and the name that may be meant."""

    field: str
    """Path from the top of the file (``tiers[1].plugins[0].name``); "" for the file as a whole."""
    message: str
    value: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class PolicyError(ValueError):
    """A policy that cannot be used. The message has a line per problem, each with its remedy."""

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(p if isinstance(p, Problem) else Problem("", p) for p in problems)
        super().__init__("\n".join(map(str, self.problems)))


class _Found:
    """Collects what is wrong in the parts of a file, so that one reading tells all of it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """A part whose first problem does not keep the parts after it from being read."""
        try:
            yield
        except PolicyError as error:
            self.problems += error.problems


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier: its arguments, and the switches that the file sets."""

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)

    def enabled(self, flag: str) -> bool:
        """The switch as the file has it, else Volcano's default."""
        return self.flags.get(flag, flag not in OFF_BY_DEFAULT)

    def whole(self, argument: str, default: int) -> int:
        """An argument that is a whole number."""
        value = self.arguments.get(argument, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a whole number")

    def number(self, argument: str, default: float) -> float:
        """An argument that is a number."""
        value = self.arguments.get(argument, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a number")

    def duration(self, argument: str, default: float) -> float:
        """An argument such as ``90s``, ``1m30s`` or ``2h``, in seconds."""
        value = self.arguments.get(argument)
        if value is None:
            return default
        seconds = read_duration(value) if isinstance(value, str) else None
        if seconds is None:
            raise PolicyError(
                f"plugin {self.name}: argument {argument} {value!r} is not a duration; "
                "write one such as 90s or 1m30s"
            )
        return seconds

    def mapping(self, argument: str) -> dict[str, object]:
        """An argument that is a mapping; absent = empty."""
        value = self.arguments.get(argument, {})
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return dict(value)
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a mapping of names")

    def switch(self, argument: str, default: bool) -> bool:
        """An argument that is true or false."""
        value = self.arguments.get(argument, default)
        if isinstance(value, bool):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is neither true nor false")

    def text(self, argument: str) -> str:
        """An argument that is text; absent = empty."""
        value = self.arguments.get(argument, "")
        if isinstance(value, str):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is not text")


@dataclass(frozen=True, slots=True)
class Policy:
    """Actions in the order in which they run, plugins in tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    configurations: dict[str, dict[str, object]] = field(default_factory=dict)
    """Action -> its arguments."""
    warnings: tuple[str, ...] = ()
    """Parts of the file that were accepted but have no effect in this version."""
    metrics: MetricsSource | None = None
    """Where figures about what nodes really use come from."""


DEFAULT_POLICY = Policy(
    actions=("allocate",),
    tiers=(
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(PluginOption(name) for name in ("drf", "predicates", "proportion", "nodeorder")),
    ),
)


def parse_policy(source: str | Mapping[str, object]) -> Policy:
    """Read a policy from YAML text or from the mapping such a text stands for.

    Raises PolicyError with every problem found, each by field (``tiers[1].plugins[0].name``).
    """
    document = _mapping(load_yaml(source) if isinstance(source, str) else source, "the policy")
    found = _Found()
    _known(found, document, {"actions", "tiers", "configurations", "metrics"}, "", "field")
    actions = _actions(found, document.get("actions"))
    tiers = _tiers(found, document.get("tiers"))
    configurations = _configurations(found, document.get("configurations"))
    metrics = _metrics(found, document.get("metrics"))
    if found.problems:
        raise PolicyError(*found.problems)
    return Policy(actions, tiers, configurations, metrics=metrics)


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: the first would silently not count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    problem = f"the key {key.value!r} stands there twice; leave one of the two out"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
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


def _actions(found: _Found, value: object) -> tuple[str, ...]:
    names: tuple[str, ...] = ()
    with found.part():
        example = f'actions: "{ACTIONS_HERE[0]}"'
        if not isinstance(value, str):
            raise _wrong("actions", value, f"is not text; name them as in {example}")
        names = tuple(part.strip() for part in value.split(",") if part.strip())
        if not names:
            raise PolicyError(Problem("actions", f"names none; write {example}", repr(value)))
    for name in names:
        with found.part():
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, "actions", "action")
    return names


def _tiers(found: _Found, value: object) -> tuple[tuple[PluginOption, ...], ...]:
    tiers: list[tuple[PluginOption, ...]] = []
    seen: dict[str, str] = {}
    for i, item in enumerate(_list(found, value, "tiers")):
        tiers.append(())
        with found.part():
            tier = _mapping(item, f"tiers[{i}]")
            _known(found, tier, {"plugins"}, f"tiers[{i}].", "field")
            tiers[i] = _tier(found, tier.get("plugins"), f"tiers[{i}].plugins", seen)
    return tuple(tiers)


def _tier(
    found: _Found, value: object, path: str, seen: dict[str, str]
) -> tuple[PluginOption, ...]:
    """``seen``: plugin -> where it was named before."""
    options: list[PluginOption] = []
    for j, plugin in enumerate(_list(found, value, path)):
        at = f"{path}[{j}]"
        with found.part():
            option = _plugin(found, plugin, at)
            if option.name in seen:
                message = f"plugin {option.name!r} is named at {seen[option.name]} already; "
                message += "leave one of the two out"
                raise PolicyError(Problem(f"{at}.name", message, repr(option.name)))
            seen[option.name] = at
            options.append(option)
    return tuple(options)


def _plugin(found: _Found, value: object, path: str) -> PluginOption:
    plugin = _mapping(value, path)
    name = plugin.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(f"{path}.name", name, "is not the name of a plugin")
    others = third_party_plugins()
    _here(name, (*PLUGINS_HERE, *others), VOLCANO_PLUGINS, f"{path}.name", "plugin")
    _known(found, plugin, FLAGS | {"name", "arguments"}, f"{path}.", "switch")
    flags: dict[str, bool] = {}
    for flag in FLAGS & plugin.keys():
        with found.part():
            flags[flag] = _typed(plugin[flag], bool, f"{path}.{flag}")
    if name not in PLUGINS_HERE:
        own = _mapping(plugin.get("arguments") or {}, f"{path}.arguments")
        return PluginOption(name=name, arguments=own, flags=flags)
    arguments = _arguments(
        found,
        plugin.get("arguments"),
        ARGUMENTS.get(name, {}),
        f"{path}.arguments",
        prefixes=ARGUMENT_PREFIXES.get(name, {}),
    )
    return PluginOption(name=name, arguments=arguments, flags=flags)


def _configurations(found: _Found, value: object) -> dict[str, dict[str, object]]:
    configurations: dict[str, dict[str, object]] = {}
    items = _list(found, value, "configurations") if value not in (None, []) else []
    for i, item in enumerate(items):
        path = f"configurations[{i}]"
        with found.part():
            entry = _mapping(item, path)
            _known(found, entry, {"name", "arguments"}, f"{path}.", "field")
            name = _typed(entry.get("name"), str, f"{path}.name")
            _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, f"{path}.name", "action")
            known = ACTION_ARGUMENTS.get(name, {})
            given = entry.get("arguments")
            configurations[name] = _arguments(found, given, known, f"{path}.arguments", prefixes={})
    return configurations


def _metrics(found: _Found, value: object) -> MetricsSource | None:
    source: MetricsSource | None = None
    with found.part():
        given = _mapping(value or {}, "metrics")
        interval = given.get("interval", f"{INTERVAL:g}s")
        seconds = read_duration(interval) if isinstance(interval, str) else None
        try:
            source = read_metrics_source(given, seconds)
        except SourceError as error:
            path, _, message = str(error).partition(": ")
            raise PolicyError(Problem(path, message)) from error
    return source


def _arguments(
    found: _Found, value: object, known: dict[str, type], path: str, *, prefixes: dict[str, type]
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    with found.part():
        for key, given in _mapping(value if value is not None else {}, path).items():
            with found.part():
                kind = _kind(key, known, prefixes, path)
                arguments[key] = _argument(given, kind, f"{path}.{key}")
    return arguments


def _argument(given: object, kind: type, path: str) -> object:
    """An argument as its type; as in Volcano, text that reads as a number or switch is one."""
    if isinstance(given, str) and kind is not str:
        read = _reads(given.strip(), kind)
        given = given if read is None else read
    if kind is float and isinstance(given, int):
        kind = int
    if kind is int and isinstance(given, float) and given.is_integer():
        given = int(given)  # 10.0, as a file that went by way of JSON has it
    return _typed(given, kind, path)


def _reads(text: str, kind: type) -> object:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower())
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


def _kind(key: str, known: dict[str, type], prefixes: dict[str, type], path: str) -> type:
    """The type an argument must have. Raises PolicyError where the plugin has none such."""
    if key in known:
        return known[key]
    for prefix, kind in prefixes.items():
        if key.startswith(prefix) and key != prefix:
            return kind
    near = _nearest(key, [*known, *prefixes])
    takes = f"it takes {', '.join(sorted(known))}" if known else "it takes no arguments"
    message = f"unknown argument {key!r}; {_meant(near) or takes}"
    raise PolicyError(Problem(path, message, repr(key), near))


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS |= {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6}


def read_duration(text: str) -> float | None:
    """Seconds of a duration as Go writes it (``1h30m``); None where the text is none."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


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


def _list(found: _Found, value: object, path: str) -> list[object]:
    """The entries; none where it is not a list, which is noted."""
    if isinstance(value, list) and value:
        return value
    found.problems += _wrong(path, value, "is not a list with at least one entry").problems
    return []


def _known(
    found: _Found, given: Mapping[str, object], known: Collection[str], path: str, kind: str
) -> None:
    for key in given:
        if key not in known:
            near = _nearest(key, known)
            hint = _meant(near) or f"known: {', '.join(sorted(known))}"
            message = f"unknown {kind}; {hint}"
            found.problems.append(Problem(f"{path}{key}", message, _shown(given[key]), near))


def _here(name: str, here: Collection[str], volcano: Collection[str], path: str, kind: str) -> None:
    if name in here:
        return
    has = f"this version has: {', '.join(sorted(here))}"
    if name in volcano:
        message = f"{kind} {name!r} is Volcano's, but not in this version; {has}"
        raise PolicyError(Problem(path, message, repr(name)))
    near = _nearest(name, volcano)
    message = f"unknown {kind} {name!r}; {_meant(near) or has}"
    raise PolicyError(Problem(path, message, repr(name), near))


def _wrong(path: str, value: object, what: str) -> PolicyError:
    return PolicyError(Problem(path, f"{_shown(value)} {what}", _shown(value)))


def _nearest(name: str, known: Collection[str]) -> str:
    lower = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""


def _meant(near: str) -> str:
    return f"did you mean {near!r}?" if near else ""


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
