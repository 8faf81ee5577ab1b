"""Lists and watches as ``get`` shows them: the server's own columns, or the objects themselves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coordinator.cli.client.client import JSON, TABLE, KubeError, RequestRefused
from coordinator.cli.client.kinds import Resource, Target
from coordinator.cli.client.session import ServerSession, whole
from coordinator.cli.output.printing import (
    Object,
    OutputForm,
    TextColumns,
    cell,
    documents,
    one_or_list,
    without_managers,
    write,
    write_form,
)
from coordinator.cli.output.terminal import painter, say_error

if TYPE_CHECKING:
    from coordinator.cli.client.jsonpath import JsonPath


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """Which objects to show, and in which form."""

    form: OutputForm
    everywhere: bool = False
    labels: str = ""
    fields: str = ""
    headers: bool = True
    sort: JsonPath | None = None
    ignore_missing: bool = False
    managers: bool = False
    """Whether to show who wrote which field."""


@dataclass(slots=True)
class RowTable:
    """A Kubernetes Table. ``keys``: namespace and name of each row."""

    columns: list[dict[str, Any]]
    rows: list[list[Any]]
    keys: list[tuple[str, str]]
    version: str = ""

    @classmethod
    def of(cls, answer: Object) -> RowTable:
        rows = answer.get("rows") or []
        metas = [(row.get("object") or {}).get("metadata") or {} for row in rows]
        return cls(
            columns=list(answer.get("columnDefinitions") or []),
            rows=[list(row["cells"]) for row in rows],
            keys=[(str(m.get("namespace") or ""), str(m.get("name") or "")) for m in metas],
            version=str((answer.get("metadata") or {}).get("resourceVersion") or ""),
        )

    def add(self, table: RowTable) -> None:
        self.columns = self.columns or table.columns
        self.rows += table.rows
        self.keys += table.keys
        self.version = table.version or self.version


class TablePrinter:
    def __init__(self, session: ServerSession, question: TableQuestion) -> None:
        self._session = session
        self._client = session.client
        self._question = question
        self._errors = 0
        self._definitions: list[dict[str, Any]] = []
        """Columns of what is watched: only the first event of a stream tells them."""

    # --- once ---------------------------------------------------------------------------------

    def show(self, targets: Sequence[Target]) -> int:
        """Returns how many of the named objects could not be shown."""
        if self._question.form.table:
            self._show_tables(targets)
        else:
            self._show_objects(targets)
        return self._errors

    def _show_tables(self, targets: Sequence[Target]) -> None:
        several = len({target.resource for target in targets}) > 1
        shown = 0
        for target in targets:
            table = self._table(target)
            if table is None or not table.rows:
                continue
            if shown:
                write("\n")
            shown += 1
            self._sort(target, table)
            prefix = f"{target.resource.label}/" if several else ""
            self._columns(target.resource, table).rows(self._cells(target.resource, table, prefix))
        if not shown and not self._errors and not self._question.ignore_missing:
            self._say_none(targets)

    def _table(self, target: Target) -> RowTable | None:
        resource = target.resource
        if target.names:
            table: RowTable | None = None
            for name in target.names:
                path = resource.path(self._session.place(resource), name)
                answer = self._one(path, TABLE)
                if answer is None:
                    continue
                row_table = RowTable.of(_as_table(answer))
                if table is None:
                    table = row_table
                else:
                    table.add(row_table)
            return table
        path = resource.path(self._session.place(resource, everywhere=self._question.everywhere))

        def read() -> RowTable:
            table = RowTable([], [], [])
            for page in self._session.pages(path, self._query(), accept=TABLE):
                table.add(RowTable.of(_as_table(page)))
            return table

        return whole(read)

    def _one(self, path: str, accept: str) -> Object | None:
        """The named object; None, after an error message, if it cannot be read."""
        try:
            return self._client.get(path, self._query(), accept=accept)
        except RequestRefused as error:
            if error.code == 404 and self._question.ignore_missing:
                return None
            self._errors += 1
            say_error(str(error))
            return None

    def _query(self) -> dict[str, Any]:
        q = self._question
        return self._session.list_query(labels=q.labels, fields=q.fields)

    def _sort(self, target: Target, table: RowTable) -> None:
        """By a field of the objects, of which a table has only the columns."""
        path = self._question.sort
        if path is None:
            return
        keys = {_key(item): sort_key(path, item) for item in self._objects(target)}
        order = sorted(range(len(table.rows)), key=lambda at: keys.get(table.keys[at], (2, 0, "")))
        table.rows = [table.rows[at] for at in order]
        table.keys = [table.keys[at] for at in order]

    def _columns(self, resource: Resource, table: RowTable) -> TextColumns:
        heads = [str(column["name"]).upper() for column in _shown(table, self._question.form)]
        if self._with_namespace(resource):
            heads.insert(0, "NAMESPACE")
        return TextColumns(heads, self._question.headers, paint=painter(sys.stdout))

    def _with_namespace(self, resource: Resource) -> bool:
        return resource.namespaced and self._question.everywhere

    def _cells(self, resource: Resource, table: RowTable, prefix: str = "") -> list[list[str]]:
        wide = self._question.form.word == "wide"
        shown = [
            at for at, column in enumerate(table.columns) if wide or not column.get("priority")
        ]
        lines = []
        for row, (namespace, _) in zip(table.rows, table.keys, strict=True):
            line = [cell(row[at]) for at in shown]
            line[0] = prefix + line[0]
            lines.append([namespace, *line] if self._with_namespace(resource) else line)
        return lines

    def _say_none(self, targets: Sequence[Target]) -> None:
        local = any(t.resource.namespaced for t in targets) and not self._question.everywhere
        where = f" in {self._session.namespace} namespace" if local else ""
        sys.stderr.write(f"No resources found{where}\n")

    # --- whole objects ------------------------------------------------------------------------

    def _show_objects(self, targets: Sequence[Target]) -> None:
        objects: list[Object] = []
        for target in targets:
            items = self._objects(target)
            if (path := self._question.sort) is not None:
                items.sort(key=lambda item: sort_key(path, item))
            objects += items
        form = self._question.form
        if form.word == "name":
            for item in objects:
                resource = self._session.catalog.of_object(item)
                write(f"{resource.label}/{item['metadata']['name']}\n")
            return
        if not self._question.managers:
            objects = [without_managers(item) for item in objects]
        single = len(targets) == 1 and len(targets[0].names) == 1
        if single and not objects:
            return
        write_form(form, one_or_list(objects, single=single))

    def _objects(self, target: Target) -> list[Object]:
        resource = target.resource
        if target.names:
            paths = [resource.path(self._session.place(resource), name) for name in target.names]
            return [item for path in paths if (item := self._one(path, JSON)) is not None]
        place = self._session.place(resource, everywhere=self._question.everywhere)
        return self._session.items(resource.path(place), self._query())

    # --- as they change -----------------------------------------------------------------------

    def watch(self, target: Target, *, show_first: bool) -> None:
        """Until the command is interrupted. Where the server no longer has the changes since the
        last one seen, the list is read again."""
        question = self._question
        if target.names:
            fields = f"metadata.name={target.names[0]}"
            joined = ",".join(part for part in (question.fields, fields) if part)
            self._question = replace(question, fields=joined)
        resource = target.resource
        path = resource.path(self._session.place(resource, everywhere=question.everywhere))
        columns: TextColumns | None = None
        accept = TABLE if question.form.table else JSON
        while True:
            columns, version = self._begin(Target(resource), columns, show=show_first)
            if target.names and show_first and columns is None and question.form.table:
                self._client.get(resource.path(self._session.place(resource), target.names[0]))
            for event in self._session.changes(path, self._query(), version, accept=accept):
                columns = self._show_change(resource, event.get("object") or {}, columns)

    def _begin(
        self, target: Target, columns: TextColumns | None, *, show: bool
    ) -> tuple[TextColumns | None, str]:
        """Show what is there; returns the columns and the version to watch from."""
        table = self._table(target)
        assert table is not None
        self._definitions = table.columns
        if not self._question.form.table:
            if show:
                for item in self._objects(target):
                    self._write_one(item)
            return columns, table.version
        if show and table.rows:
            columns = columns or self._columns(target.resource, table)
            columns.rows(self._cells(target.resource, table))
            sys.stdout.flush()
        return columns, table.version

    def _show_change(
        self, resource: Resource, value: Object, columns: TextColumns | None
    ) -> TextColumns | None:
        """Returns the columns."""
        if not self._question.form.table:
            self._write_one(value)
        else:
            table = RowTable.of(_as_table(value))
            self._definitions = table.columns = table.columns or self._definitions
            columns = columns or self._columns(resource, table)
            columns.rows(self._cells(resource, table))
        sys.stdout.flush()
        return columns

    def _write_one(self, item: Object) -> None:
        item = item if self._question.managers else without_managers(item)
        match self._question.form.word:
            case "name":
                resource = self._session.catalog.of_object(item)
                write(f"{resource.label}/{item['metadata']['name']}\n")
            case "yaml":
                write("---\n" + documents([item]))
            case _:
                write_form(self._question.form, item)


def sort_key(path: JsonPath, item: Object) -> tuple[int, float, str]:
    """A sort key: numbers by value, then texts; objects without the field come last."""
    values = path.find(item)
    match values[:1]:
        case [bool() as value]:
            return (1, 0.0, str(value))
        case [int() | float() as value]:
            return (0, float(value), "")
        case [value] if value is not None:
            return (1, 0.0, str(value))
        case _:
            return (2, 0.0, "")


def _shown(table: RowTable, form: OutputForm) -> list[dict[str, Any]]:
    wide = form.word == "wide"
    return [column for column in table.columns if wide or not column.get("priority")]


def _key(item: Object) -> tuple[str, str]:
    meta = item["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def _as_table(answer: Object) -> Object:
    if answer.get("kind") != "Table":
        raise KubeError(f"the server answered {answer.get('kind')}, not a Table; use -o json")
    return answer
