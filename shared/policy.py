"""The scheduler's policy: which actions run and which plugins speak, in Volcano's file format.

The file is read strictly. Volcano ignores what it does not know; here a misspelt switch or argument
is an error that names the field and the nearest name, because a policy that silently means
something else is worse than one that is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import yaml

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

T = TypeVar("T")


class PolicyError(ValueError):
    """A policy that cannot be used. The message names the field and the remedy."""


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


DEFAULT_POLICY = Policy(
    actions=("allocate",),
    tiers=(
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(PluginOption(name) for name in ("drf", "predicates", "proportion", "nodeorder")),
    ),
)


def parse_policy(source: str | Mapping[str, object]) -> Policy:
    """Read a policy from YAML text or from the mapping such a text stands for.

    Raises PolicyError, which names the field (``tiers[1].plugins[0].name``) and the remedy.
    """
    document = _mapping(_load(source) if isinstance(source, str) else source, "the policy")
    _known(document, {"actions", "tiers", "configurations", "metrics"}, "", "field")
    warnings = ("metrics: has no effect in this version",) if document.get("metrics") else ()
    return Policy(
        actions=_actions(document.get("actions")),
        tiers=_tiers(document.get("tiers")),
        configurations=_configurations(document.get("configurations")),
        warnings=warnings,
    )


def _load(text: str) -> object:
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise PolicyError(f"the policy is not YAML{where}: {problem}") from None
    return document


def _actions(value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise PolicyError(
            f'actions: {_shown(value)} is not text; name them as in actions: "{ACTIONS_HERE[0]}"'
        )
    names = tuple(part.strip() for part in value.split(",") if part.strip())
    if not names:
        raise PolicyError(f'actions: names none; write actions: "{ACTIONS_HERE[0]}"')
    for name in names:
        _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, "actions", "action")
    return names


def _tiers(value: object) -> tuple[tuple[PluginOption, ...], ...]:
    tiers: list[tuple[PluginOption, ...]] = []
    seen: dict[str, str] = {}
    for i, item in enumerate(_list(value, "tiers")):
        tier = _mapping(item, f"tiers[{i}]")
        _known(tier, {"plugins"}, f"tiers[{i}].", "field")
        options: list[PluginOption] = []
        for j, plugin in enumerate(_list(tier.get("plugins"), f"tiers[{i}].plugins")):
            path = f"tiers[{i}].plugins[{j}]"
            option = _plugin(plugin, path)
            if option.name in seen:
                raise PolicyError(
                    f"{path}.name: plugin {option.name!r} is named at {seen[option.name]} already; "
                    "leave one of the two out"
                )
            seen[option.name] = path
            options.append(option)
        tiers.append(tuple(options))
    return tuple(tiers)


def _plugin(value: object, path: str) -> PluginOption:
    plugin = _mapping(value, path)
    name = plugin.get("name")
    if not isinstance(name, str) or not name:
        raise PolicyError(f"{path}.name: {_shown(name)} is not the name of a plugin")
    _here(name, PLUGINS_HERE, VOLCANO_PLUGINS, f"{path}.name", "plugin")
    _known(plugin, FLAGS | {"name", "arguments"}, f"{path}.", "switch")
    flags = {flag: _typed(plugin[flag], bool, f"{path}.{flag}") for flag in plugin if flag in FLAGS}
    arguments = _arguments(
        plugin.get("arguments"),
        ARGUMENTS.get(name, {}),
        f"{path}.arguments",
        prefixes=ARGUMENT_PREFIXES.get(name, {}),
    )
    return PluginOption(name=name, arguments=arguments, flags=flags)


def _configurations(value: object) -> dict[str, dict[str, object]]:
    configurations: dict[str, dict[str, object]] = {}
    for i, item in enumerate(_list(value, "configurations") if value is not None else ()):
        path = f"configurations[{i}]"
        entry = _mapping(item, path)
        _known(entry, {"name", "arguments"}, f"{path}.", "field")
        name = _typed(entry.get("name"), str, f"{path}.name")
        _here(name, ACTIONS_HERE, VOLCANO_ACTIONS, f"{path}.name", "action")
        known = ACTION_ARGUMENTS.get(name, {})
        arguments = _arguments(entry.get("arguments"), known, f"{path}.arguments", prefixes={})
        configurations[name] = arguments
    return configurations


def _arguments(
    value: object, known: dict[str, type], path: str, *, prefixes: dict[str, type]
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for key, given in _mapping(value if value is not None else {}, path).items():
        kind = known.get(key)
        if kind is None:
            ends = (t for prefix, t in prefixes.items() if key.startswith(prefix) and key != prefix)
            kind = next(ends, None)
        if kind is None:
            hint = _nearest(key, [*known, *prefixes])
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes no arguments"
            raise PolicyError(f"{path}: unknown argument {key!r}; {hint or takes}")
        arguments[key] = _typed(given, kind, f"{path}.{key}")
    return arguments


# --- pieces ---------------------------------------------------------------------------------------

WORDS: dict[type, str] = {bool: "true or false", int: "a whole number", str: "text"}


def _typed(value: object, kind: type[T], path: str) -> T:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise PolicyError(f"{path}: {_shown(value)} is not {WORDS[kind]}")


def _mapping(value: object, path: str) -> dict[str, object]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise PolicyError(f"{path}: {_shown(value)} is not a mapping of names to values")


def _list(value: object, path: str) -> list[object]:
    if isinstance(value, list) and value:
        return value
    raise PolicyError(f"{path}: {_shown(value)} is not a list with at least one entry")


def _known(given: Mapping[str, object], known: Collection[str], path: str, kind: str) -> None:
    for key in given:
        if key not in known:
            hint = _nearest(key, known) or f"known: {', '.join(sorted(known))}"
            raise PolicyError(f"{path}{key}: unknown {kind}; {hint}")


def _here(name: str, here: Collection[str], volcano: Collection[str], path: str, kind: str) -> None:
    if name in here:
        return
    if name in volcano:
        raise PolicyError(
            f"{path}: {kind} {name!r} is Volcano's, but not in this version; "
            f"this version has: {', '.join(sorted(here))}"
        )
    hint = _nearest(name, volcano) or f"this version has: {', '.join(sorted(here))}"
    raise PolicyError(f"{path}: unknown {kind} {name!r}; {hint}")


def _nearest(name: str, known: Collection[str]) -> str:
    lower = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else ""


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
