"""Subcommands that are imported when they are called, and options that are taken as they are.

The list of commands is known without importing them, so that ``quadrant --help`` and ``quadrant
get`` load what they need and nothing else. Typer coerces every value with pydantic, whose import
takes longer than most answers of a server; a text needs no coercion.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.cli.options.records import CommandGroup


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One subcommand: ``attribute`` of ``module`` is its function, or an application of its own."""

    name: str
    module: str
    help: str
    panel: str
    attribute: str = ""

    def load(self) -> Any:
        """The command itself."""
        target = getattr(importlib.import_module(self.module), self.attribute or self.name)
        if isinstance(target, typer.Typer):
            command = typer.main.get_command(target)
            command.name, command.help = self.name, self.help
        else:
            app = CommandGroup()
            app.command(self.name)(target)
            command = typer.main.get_command(app)
        _take_texts_as_they_are(command)
        return command


_REMEDIES = {
    "create": "write the object to a file and run quadrant apply -f FILE, or use kubectl create",
    **dict.fromkeys(
        ("annotate", "edit", "label", "patch", "replace"),
        "change the object's file and run quadrant apply -f FILE, or use kubectl",
    ),
}
"""kubectl's commands that are not here -> what to do in their place."""


def group_of(entries: Iterable[CommandEntry]) -> type[TyperGroup]:
    """The class of an application that has these subcommands."""
    table = {entry.name: entry for entry in entries}

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for entry in table.values():
                self.add_command(
                    TyperCommand(entry.name, help=entry.help, rich_help_panel=entry.panel)
                )

            _help_as_it_is(self)
            _flow(self)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] not in table and args[0] in _REMEDIES:
                raise CommandError(f"no command {args[0]}; {_REMEDIES[args[0]]}", code=EXIT_USAGE)
            name, command, rest = super().resolve_command(ctx, args)
            return name, table[name].load() if name in table else command, rest

    return LazyGroup


def _take_texts_as_they_are(command: Any) -> None:
    for child in getattr(command, "commands", {}).values():
        _take_texts_as_they_are(child)
    for param in command.params:
        _take_as_it_is(param)
    _help_as_it_is(command)
    _flow(command)


def _flow(command: Any) -> None:
    """Let paragraphs of the help break where the terminal ends, not where the source does.

    Indented paragraphs are examples: they stand below each other.
    """
    blocks: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith("  "):
            blocks.append(" ".join(paragraph.split()))
        elif blocks and blocks[-1].startswith("  "):
            blocks[-1] += f"\n{paragraph}"
        else:
            blocks.append(paragraph)
    command.help = "\n\n".join(blocks)


def _help_as_it_is(command: Any) -> None:
    """``--help`` is a switch that typer makes only when it is asked for."""
    make = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = make(ctx)
        if option is not None and not isinstance(option.__dict__.get("get_runtime_param"), _Gives):
            _take_as_it_is(option)
        return option

    command.get_help_option = get_help_option


def _take_as_it_is(param: Any) -> None:
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if annotation is bool and param.metavar is None:
        param.metavar = ""  # a switch takes no value, and its help should not look as if it did
    if annotation in (str, bool, list[str]) or _is_choice(annotation):
        param.get_runtime_param = _Gives(_AsItIs(param.get_runtime_param, annotation))


def _is_choice(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


@dataclass(frozen=True, slots=True)
class _AsItIs:
    """Stands for typer's coercion where there is nothing to coerce."""

    thorough: Callable[[], Any]
    """Gives typer's own, for what is not simply one of the expected values."""
    annotation: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.annotation == list[str]:
            if value is None or isinstance(value, list | tuple):
                return list(value or ())
        elif value is None or (type(value) is self.annotation):
            return value
        elif _is_choice(self.annotation):
            for member in self.annotation:
                if value in (member, member.value):
                    return member
        return self.thorough().coerce(value, param=param, ctx=ctx)


@dataclass(frozen=True, slots=True)
class _Gives:
    value: _AsItIs

    def __call__(self) -> _AsItIs:
        return self.value
