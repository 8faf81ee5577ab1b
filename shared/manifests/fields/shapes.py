"""Whether a field that is kept and not looked at has the form that its schema promises to readers.

Fields that decide something are read by :class:`shared.manifests.fields.reader.Fields`, which knows
more of them. What the schema does not name may be anything.
"""

from __future__ import annotations

from contextvars import ContextVar

from shared.errors import InvalidInput
from shared.schemas.catalogue import SCHEMAS
from shared.schemas.notation import Schema

ACCEPTED: ContextVar[bool] = ContextVar("the object was accepted before", default=False)
"""Whether what is read is stored already: an earlier version took any value for kept fields, and
refusing it now would leave a job that runs without its manifest."""
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "not a text; put it in quotes"),
    "integer": ((int,), "not a whole number; write one without quotes"),
    "number": ((int, float), "not a number; write one without quotes"),
    "boolean": ((bool,), "neither true nor false; write one of them without quotes"),
    "object": ((dict,), "not an object; write fields between { and }"),
    "array": ((list,), "not a list; write items between [ and ]"),
}


def check_shape(value: object, schema: Schema, at: str) -> None:
    """Raises InvalidInput for the first part that does not have the form of its schema."""
    if ACCEPTED.get() or (value is None and schema.get("nullable")):
        return
    if "oneOf" in schema:
        _check_one_of(value, schema["oneOf"], at)
    elif "allOf" in schema:
        check_shape(value, schema["allOf"][0], at)
    elif "$ref" in schema:
        check_shape(value, SCHEMAS[schema["$ref"].rpartition("/")[2]], at)
    else:
        _check_plain(value, schema, at)


def _check_one_of(value: object, schemas: list[Schema], at: str) -> None:
    if not any(type(value) in _TYPES[schema["type"]][0] for schema in schemas):
        kinds = " or ".join(schema["type"] for schema in schemas)
        raise InvalidInput(at, value, f"not allowed; write a value of type {kinds}")


def _check_plain(value: object, schema: Schema, at: str) -> None:
    types, message = _TYPES[schema["type"]]
    if type(value) not in types:  # not isinstance: True is no number
        raise InvalidInput(at, value, message)
    if isinstance(value, dict):
        _check_fields(value, schema, at)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            check_shape(item, schema["items"], f"{at}[{i}]")
    elif value not in schema.get("enum", (value,)):
        raise InvalidInput(at, value, f"unknown value; write one of {', '.join(schema['enum'])}")


def _check_fields(value: dict[str, object], schema: Schema, at: str) -> None:
    for name in schema.get("required", ()):
        if value.get(name) is None:
            raise InvalidInput(f"{at}.{name}", None, "missing; it is required")
    named = schema.get("properties", {})
    for name, item in value.items():
        if (form := named.get(name, schema.get("additionalProperties"))) is not None:
            check_shape(item, form, f"{at}.{name}")
