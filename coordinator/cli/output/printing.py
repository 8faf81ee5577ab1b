"""How objects are written: tables for people, JSON, YAML, names and templates for scripts."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from coordinator.cli.options.failure import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.jsonpath import JsonPath

FORMS = ("wide", "json", "yaml", "name")
GAP = "   "
NONE = "<none>"
ROOM = 30
"""Columns that a wrapped last cell has at least beside the others."""
BELOW = "    "
"""Before a last cell that stands on lines of its own."""

Object = dict[str, Any]
Write = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OutputForm:
    """Output form that ``-o`` selects. ``template`` is set for jsonpath alone."""

    word: str = ""
    template: JsonPath | None = None

    @property
    def table(self) -> bool:
        return self.word in ("", "wide")


def form_of(text: str) -> OutputForm:
    """Raises :class:`CommandError` (usage)."""
    if text in ("", *FORMS):
        return OutputForm(text)
    word, equals, template = text.partition("=")
    if word == "jsonpath" and equals:
        return OutputForm("jsonpath", path_of(template, "-o"))
    forms = ", ".join((*FORMS, "jsonpath=TEMPLATE"))
    raise CommandError(f"-o {text}: not known; write one of {forms}", code=EXIT_USAGE)


def path_of(template: str, option: str) -> JsonPath:
    """Raises :class:`CommandError` (usage)."""
    from coordinator.cli.client.jsonpath import JsonPath, JsonPathError

    try:
        return JsonPath(template)
    except JsonPathError as error:
        raise CommandError(f"{option} {template}: {error}", code=EXIT_USAGE) from None


def write(text: str) -> None:
    sys.stdout.write(text)


# --- tables -----------------------------------------------------------------------------------


@dataclass(slots=True)
class TextColumns:
    """Writes rows in columns; later rows keep the widths of earlier ones (a watch)."""

    headers: Sequence[str]
    show_headers: bool = True
    out: Write = write
    paint: Callable[[str, str], str] | None = None
    """Colours a cell: header and padded text in, text out."""
    width: int | None = None
    """Columns of the terminal: the last cell is wrapped to fit, below the others where they leave
    it little room. None: every row is one line."""
    _widths: list[int] = field(default_factory=list)

    def rows(self, rows: Iterable[Sequence[str]]) -> None:
        """Every cell is text; empty ones are shown as ``<none>``."""
        body = [[_one_line(cell) or NONE for cell in row] for row in rows]
        shown = [list(self.headers), *body] if self.show_headers else body
        self._widths = self._widths or [0] * len(self.headers)
        for row in shown:
            self._widths = [
                max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)
            ]
        word = max((len(w) for row in shown for w in row[-1].split()), default=0)
        for at, row in enumerate(shown):
            first, rest = self._fitted(row, max(ROOM, word))
            self.out(self._line(first, header=self.show_headers and at == 0) + "\n")
            for line in rest:
                self.out(line + "\n")
        self.show_headers = False

    def _fitted(self, row: list[str], room: int) -> tuple[list[str], list[str]]:
        """The cells of the first line, and the lines below it. ``room``: what the last cell needs
        to stand beside the others."""
        before = sum(self._widths[:-1]) + len(GAP) * (len(row) - 1)
        if self.width is None or before + self._widths[-1] <= self.width:
            return row, []
        if self.width - before >= room:
            first, *rest = wrapped(row[-1], self.width - before)
            return [*row[:-1], first], [" " * before + line for line in rest]
        if row[-1] == NONE:
            return row[:-1], []
        return row[:-1], [BELOW + line for line in wrapped(row[-1], self.width - len(BELOW))]

    def _line(self, row: Sequence[str], *, header: bool) -> str:
        last = len(row) - 1
        cells = [
            cell if at == last else cell.ljust(self._widths[at]) for at, cell in enumerate(row)
        ]
        if self.paint is not None:
            heads = [""] * len(cells) if header else self.headers[: len(cells)]
            cells = [self.paint(head, cell) for head, cell in zip(heads, cells, strict=True)]
        return GAP.join(cells)


def wrapped(text: str, width: int) -> list[str]:
    """At spaces alone: a name that is longer than the line stays whole."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def _one_line(cell: str) -> str:
    return " ".join(cell.split()) if "\n" in cell or "\t" in cell else cell


def cell(value: Any) -> str:
    match value:
        case None:
            return NONE
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return str(value)


# --- whole objects ----------------------------------------------------------------------------


def one_or_list(objects: list[Object], *, single: bool) -> Object:
    """Object for ``-o json``: the single object where one was named, else a List."""
    if single and len(objects) == 1:
        return objects[0]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": objects,
    }


def write_form(form: OutputForm, value: Object) -> None:
    """JSON, YAML or a template; not names and tables."""
    match form.word:
        case "json":
            write(as_json(value))
        case "yaml":
            write(as_yaml(value))
        case _:
            assert form.template is not None
            write(form.template.render(value))


def as_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def as_yaml(value: Any, *, ordered: bool = False) -> str:
    """``ordered``: fields by name, so that two texts differ only where their objects do."""
    import yaml

    text: str = yaml.dump(
        value, Dumper=yaml.CSafeDumper, sort_keys=ordered, allow_unicode=True, width=1 << 20
    )
    return text


def without_managers(value: Object) -> Object:
    """The object without who wrote which field, which is longer than the rest."""
    meta = value.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return value
    return {**value, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


def documents(value: Iterable[Object]) -> str:
    """Several YAML documents in one stream."""
    return "---\n".join(as_yaml(document) for document in value)
