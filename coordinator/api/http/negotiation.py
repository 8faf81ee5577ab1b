"""Content negotiation: the form of objects that the Accept header asks for."""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus

from coordinator.errors import Problem
from shared.errors import shown

_JSON = ("application/json", "application/*", "*/*")
_META = "meta.k8s.io"


class AnswerForm(Enum):
    OBJECT = "the objects themselves"
    TABLE = "rows and columns, for people"
    METADATA = "kind and metadata only"


def form_of(accept: str) -> AnswerForm:
    """The first supported form in the header. Raises Problem (406) if there is none.

    ``application/json;as=Table;v=v1;g=meta.k8s.io`` asks for a table; media types are separated by
    commas, in order of preference.
    """
    if not accept.strip():
        return AnswerForm.OBJECT
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        if kind.lower() not in _JSON:
            continue
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        if values.get("g", _META) != _META or values.get("v", "v1") != "v1":
            continue
        match values.get("as"):
            case None:
                return AnswerForm.OBJECT
            case "Table":
                return AnswerForm.TABLE
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return AnswerForm.METADATA
            case _:
                pass
    raise Problem(
        HTTPStatus.NOT_ACCEPTABLE,
        f"Accept is {shown(accept)}; only application/json is served here",
    )
