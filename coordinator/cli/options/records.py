"""Options that belong together reach a command as one value: a record.

A record is a dataclass whose fields are annotated as typer's options. A command takes it as one
parameter; on the command line each field is an option of its own, in the parameter's place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import update_wrapper
from typing import Any, TypeVar, get_type_hints

import typer

HELP = {"help_option_names": ["-h", "--help"]}

Function = TypeVar("Function", bound=Callable[..., Any])


class CommandGroup(typer.Typer):
    """Commands that may take records of options. Errors are told by ``quadrant`` itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            add_completion=False, pretty_exceptions_enable=False, context_settings=HELP, **settings
        )

    def command(self, *args: Any, **settings: Any) -> Callable[[Function], Function]:
        register = super().command(*args, context_settings=HELP, **settings)

        def take(function: Function) -> Function:
            register(with_fields_as_options(function))
            return function

        return take


def with_fields_as_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for typer, with the fields of its records in their places."""
    hints = get_type_hints(function, include_extras=True)
    records: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            assert isinstance(kind, type), parameter
            records[parameter.name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter.replace(annotation=kind))

    def call(**values: Any) -> Any:
        for name, record in records.items():
            values[name] = record(**{f.name: values.pop(f.name) for f in fields(record)})
        return function(**values)

    update_wrapper(call, function)
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _options(record: type) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    own = inspect.signature(record).parameters.values()
    return [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
