"""The forms of answers: whole objects, metadata only, or rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.api.http.negotiation import AnswerForm
from coordinator.api.read.query import ReadQuestion
from coordinator.api.read.source import Entry, Source
from coordinator.intake.documents.kinds import Kind

Json = dict[str, Any]
_META = "meta.k8s.io/v1"


def one_shape(objects: Source, question: ReadQuestion, value: Json) -> Json:
    """A single object in the wanted form."""
    match question.form:
        case AnswerForm.OBJECT:
            return value
        case AnswerForm.METADATA:
            return metadata_only(value)
        case AnswerForm.TABLE:
            return table(objects, question, [value], version=version_of(value))


def rows(objects: Source, question: ReadQuestion, shown: Sequence[Entry | Json]) -> list[Json]:
    """Items of a list, or rows of a table, in the wanted form."""
    match question.form:
        case AnswerForm.OBJECT:
            return [whole(entry) for entry in shown]
        case AnswerForm.METADATA:
            return [metadata_only(whole(entry)) for entry in shown]
        case AnswerForm.TABLE:
            table_rows: list[Json] = table(objects, question, shown)["rows"]
            return table_rows


def table(
    objects: Source, question: ReadQuestion, shown: Sequence[Entry | Json], *, version: str = ""
) -> Json:
    """A Table whose rows include as much of their objects as the client asked for."""
    value = objects.table(question.kind, shown)
    answer = {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": {"resourceVersion": version} if version else {},
        "columnDefinitions": value["columnDefinitions"],
        "rows": value["rows"],
    }
    match question.include:
        case "Object":
            for row, entry in zip(answer["rows"], shown, strict=True):
                row["object"] = whole(entry)
        case "None":
            for row in answer["rows"]:
                row["object"] = None
        case _:
            for row, entry in zip(answer["rows"], shown, strict=True):
                if row.get("object") is None:
                    row["object"] = metadata_only(whole(entry))
    return answer


def whole(entry: Entry | Json) -> Json:
    return entry if isinstance(entry, dict) else entry.object()


def metadata_only(value: Json) -> Json:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": _META,
        "metadata": value["metadata"],
    }


def list_head(question: ReadQuestion) -> Json:
    """kind and apiVersion of a list in the wanted form, without columns."""
    match question.form:
        case AnswerForm.OBJECT:
            kind: Kind = question.kind
            return {"kind": f"{kind.written}List", "apiVersion": kind.api_version}
        case AnswerForm.METADATA:
            return {"kind": "PartialObjectMetadataList", "apiVersion": _META}
        case AnswerForm.TABLE:
            return {"kind": "Table", "apiVersion": _META}


def version_of(value: Json) -> str:
    return str(value["metadata"].get("resourceVersion", ""))
