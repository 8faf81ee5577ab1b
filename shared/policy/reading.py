"""Tools of both policy readers: YAML, types of values, and mistakes collected with the nearest
name."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import yaml

from shared.policy.model import PolicyError, PolicyProblem

T = TypeVar("T")


class ProblemReport:
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


def read_arguments(
    report: ProblemReport,
    value: object,
    types: dict[str, type],
    path: str,
    *,
    prefixes: dict[str, type],
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    with report.part():
        for key, argument in mapping(value if value is not None else {}, path).items():
            with report.part():
                kind = _kind_of(key, types, prefixes, path)
                arguments[key] = typed_argument(argument, kind, f"{path}.{key}")
    return arguments


def _kind_of(key: str, types: dict[str, type], prefixes: dict[str, type], path: str) -> type:
    """The required type of an argument. Raises PolicyError if the plugin has no such argument."""
    if key in types:
        return types[key]
    for prefix, kind in prefixes.items():
        if key.startswith(prefix) and key != prefix:
            return kind
    near = nearest(key, [*types, *prefixes])
    takes = f"it takes {', '.join(sorted(types))}" if types else "it takes no arguments"
    message = f"unknown argument {key!r}; {meant(near) or takes}"
    raise PolicyError(PolicyProblem(path, message, repr(key), near))


def typed_argument(argument: object, kind: type, path: str) -> object:
    """An argument converted to its type. As in Volcano, text that reads as a number or bool
    is one."""
    if isinstance(argument, str) and kind is not str:
        read = _reads(argument.strip(), kind)
        argument = argument if read is None else read
    if kind is float and isinstance(argument, int):
        kind = int
    if kind is int and isinstance(argument, float) and argument.is_integer():
        argument = int(argument)  # 10.0, as a file that went by way of JSON has it
    return typed(argument, kind, path)


def _reads(text: str, kind: type) -> object:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower())
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


WORDS: dict[type, str] = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
}


def typed(value: object, kind: type[T], path: str) -> T:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise wrong(path, value, f"is not {WORDS[kind]}")


def mapping(value: object, path: str) -> dict[str, object]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise wrong(path, value, "is not a mapping of names to values")


def listed(report: ProblemReport, value: object, path: str) -> list[object]:
    """The entries of a list. If the value is not a nonempty list, record the problem and
    return []."""
    if isinstance(value, list) and value:
        return value
    report.problems += wrong(path, value, "is not a list with at least one entry").problems
    return []


def only_known(
    report: ProblemReport,
    fields: Mapping[str, object],
    names: Collection[str],
    path: str,
    kind: str,
) -> None:
    for key in fields:
        if key not in names:
            near = nearest(key, names)
            hint = meant(near) or f"known: {', '.join(sorted(names))}"
            message = f"unknown {kind}; {hint}"
            report.problems.append(PolicyProblem(f"{path}{key}", message, shown(fields[key]), near))


def one_of(name: str, names: Collection[str], path: str, kind: str) -> None:
    """Raise PolicyError, with the nearest name, where KAI has no such action or plugin."""
    if name not in names:
        near = nearest(name, names)
        hint = meant(near) or f"KAI has: {', '.join(sorted(names))}"
        message = f"unknown {kind} {name!r}; {hint}"
        raise PolicyError(PolicyProblem(path, message, repr(name), near))


def wrong(path: str, value: object, complaint: str) -> PolicyError:
    return PolicyError(PolicyProblem(path, f"{shown(value)} {complaint}", shown(value)))


def nearest(name: str, names: Collection[str]) -> str:
    lower = {candidate.lower(): candidate for candidate in sorted(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""


def meant(near: str) -> str:
    return f"did you mean {near!r}?" if near else ""


def shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
