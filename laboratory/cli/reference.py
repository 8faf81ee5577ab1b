"""The pages of ``docs/reference`` that are made from code: the command's help, the plugins of a
policy, and the settings.

``python -m laboratory.cli.reference docs`` writes them anew; a test holds them to the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer

from coordinator.cli.access_reference import access_page
from coordinator.cli.plugin_reference import plugins_page, served_fields_page
from coordinator.cluster.history.fields import history_page
from laboratory.cli.catalogue import ENTRIES
from shared.settings.settings import PREFIX, Settings

_MADE = "This page is made from the code by `make reference`."
_SERVER = "The server"
"""Panel of the options that all commands have which ask a server; told once."""


def pages() -> dict[str, str]:
    """Text of each page by its path below ``docs``."""
    return {
        "reference/access.md": access_page(_MADE),
        "reference/cli.md": command_page(),
        "reference/history.md": history_page(_MADE),
        "reference/plugins.md": plugins_page(_MADE),
        "reference/served-fields.md": served_fields_page(_MADE),
        "reference/settings.md": settings_page(),
    }


def command_page() -> str:
    """Every subcommand: how it is called, what its help says, its arguments and options."""
    lines = ["# The command", "", _MADE, ""]
    lines.append("`kubectl quadrant` is the same command. Every subcommand takes `--help`.")
    commands = [
        (f"quadrant {' '.join(names)}", command)
        for entry in ENTRIES
        for names, command in _leaves((entry.name,), entry.load())
    ]
    shared = {row: None for _, command in commands for row in _rows(command, server=True)}
    lines += ["", "Those that ask a server also take:", "", *_table(list(shared))]
    for name, command in commands:
        lines += ["", f"## {name}", "", "```text", _usage(name, command), "```", ""]
        lines += [_markdown(command.help or "")]
        if rows := _rows(command, server=False):
            lines += ["", *_table(rows)]
        if _rows(command, server=True):
            lines += ["", "It asks a server."]
    return "\n".join(lines) + "\n"


def _leaves(names: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield names, command
        return
    for name, child in children.items():
        yield from _leaves((*names, name), child)


def _usage(name: str, command: Any) -> str:
    context = _context(name, command)
    return " ".join([name, *command.collect_usage_pieces(context)])


def _context(name: str, command: Any) -> Any:
    return typer.Context(command, info_name=name)


def _markdown(text: str) -> str:
    """Examples of the help, which are indented, as a block that tells it is only shown."""
    parts = [
        f"```text\n{part.rstrip()}\n```" if part.startswith("  ") else part.strip()
        for part in text.split("\n\n")
    ]
    return "\n\n".join(parts)


def _rows(command: Any, *, server: bool) -> list[tuple[str, str]]:
    """Rows of the table of options: usage and meaning."""
    context = _context("", command)
    return [
        (_written(param, context), _meaning(param, context))
        for param in command.params
        if not param.hidden and (getattr(param, "rich_help_panel", None) == _SERVER) == server
    ]


def _written(param: Any, context: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_value(param, context)}`"
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if param.is_flag or not (value := _value(param, context)):
        return names
    return f"{names} `{value}`"


_WORDS = {"int range": "NUMBER", "float range": "NUMBER", "str": "TEXT", "path": "FILE"}


def _value(param: Any, context: Any) -> str:
    """Placeholder of the option's value: a choice, FILE, or its type."""
    text: str = param.metavar or param.display_type(context)
    text = text.strip("{}<>").replace("|", "/")
    return _WORDS.get(text, text)


def _meaning(param: Any, context: Any) -> str:
    text = " ".join((param.help or "").split())
    default = param.default
    if isinstance(default, Enum):
        default = default.value
    if param.required:
        text += " (required)"
    elif default not in (None, "", False, [], ()) and not callable(default):
        text += f" (default `{default}`)"
    return text.strip().replace("|", "/")


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]


def settings_page() -> str:
    """Every setting: its variable, what it may be, its default, what it is for."""
    lines = [
        "# Settings",
        "",
        _MADE,
        "",
        "Each is a variable of the environment, or a key in lower case without the prefix in the",
        "YAML file that `QUADRANT_SETTINGS_FILE` names. An option of a command counts before the",
        "variable, the variable before the file. A name that is not known is refused. What counts,",
        "and where it is from: `quadrant config show --origin`.",
        "",
        "| variable | value | default | what it is |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        described = (field.description or "").replace("|", "/")
        lines.append(
            f"| `{PREFIX}{name.upper()}` | {_kind(field.annotation)} | {_default(field)} "
            f"| {described} |"
        )
    return "\n".join(lines) + "\n"


_KINDS = {
    "bool": "true, false",
    "int": "whole number",
    "float": "number",
    "str": "text",
    "Path": "path",
}


def _kind(annotation: Any) -> str:
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if parts and all(isinstance(part, str) for part in parts):
        return ", ".join(f"`{part}`" for part in parts)
    kind = parts[0] if parts else annotation
    return _KINDS.get(kind.__name__, "secret")


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return "depends"  # on the machine or on other settings; the description says how
    return "" if field.default in (None, "") else f"`{field.default}`"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m laboratory.cli.reference DIRECTORY")
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
