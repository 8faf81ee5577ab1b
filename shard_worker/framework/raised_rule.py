"""Which plugin's rule an exception came from, where the rule is not guarded.

The plugins of this repository are asked for every task, so that a guard around each question would
cost too much (docs/decisions/0049). Only once one has raised, the code objects of all rules are
looked up in the traceback.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any

from shard_worker.framework.extension_points import EXTENSION_POINTS
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.registration import Registration

_DEPTH = 4
"""Wrappers around a rule that are looked through: a scorer that holds a partial of a closure."""

Origin = tuple[str, str]
"""Plugin and extension point."""


def plugin_error(session: Registration, error: Exception) -> PluginError:
    """The error as one of the plugin whose rule raised it. Raises the error itself where no rule
    did: it is a defect of what asks the rules, for which a worker is replaced."""
    if isinstance(error, PluginError):
        return error
    origins = _origins(session)
    for code in _codes_of(error.__traceback__):
        origin = origins.get(code)
        if origin is not None:
            return PluginError(*origin, error)
    raise error


def _origins(session: Registration) -> dict[CodeType, Origin | None]:
    """Code -> the rule that it is of; None for code that rules of several plugins share."""
    origins: dict[CodeType, Origin | None] = {}
    for point in EXTENSION_POINTS.values():
        for rule in session.rules(point):
            for code in {*_codes(rule.fn, _DEPTH), *_codes(rule.scalar, _DEPTH)}:
                origin = (rule.plugin, point.name)
                origin_of_code = origins.setdefault(code, origin)
                if origin_of_code is not None and origin_of_code[0] != origin[0]:
                    origins[code] = None
    return origins


def _codes_of(traceback: TracebackType | None) -> Iterator[CodeType]:
    """From the outermost call to the one that raised."""
    while traceback is not None:
        yield traceback.tb_frame.f_code
        traceback = traceback.tb_next


def _codes(rule: Any, depth: int) -> Iterator[CodeType]:
    """The code that runs when a rule is asked: of a function, or of an object's methods."""
    if rule is None or not depth:
        return
    match rule:
        case FunctionType():
            yield rule.__code__
            for cell in rule.__closure__ or ():
                with contextlib.suppress(ValueError):  # a name that got no value yet
                    if callable(contents := cell.cell_contents):
                        yield from _codes(contents, depth - 1)
        case MethodType():
            yield from _codes(rule.__func__, depth)
        case partial():
            yield from _codes(rule.func, depth)
        case type():
            return
        case _:
            yield from _codes_of_object(rule, depth)


def _codes_of_object(rule: object, depth: int) -> Iterator[CodeType]:
    for kind in type(rule).__mro__:
        for method in vars(kind).values():
            if isinstance(method, FunctionType):
                yield method.__code__
    for name in (*getattr(rule, "__dict__", ()), *_slots(type(rule))):
        value: Callable[..., object] | object = getattr(rule, name, None)
        if isinstance(value, FunctionType | MethodType | partial):
            yield from _codes(value, depth - 1)


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        names = vars(each).get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names
