"""The schemas by hand: every field is described, and the parsers check by them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shared.manifests
from shared.errors import InvalidInput
from shared.manifests.fields.reader import Fields
from shared.manifests.kubernetes.inert import INERT
from shared.schemas.catalogue import SCHEMAS, TABLES
from shared.schemas.notation import read

PARSERS = Path(shared.manifests.__file__).parent


def checked_by() -> set[str]:
    """Every schema that a parser names: ``fields.check(NAME)`` or ``part_of(obj, field, NAME)``."""
    calls = (
        node
        for path in PARSERS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    )
    named = {argument for call in calls for argument in _of_schema(call)}
    return {
        argument.value
        for argument in named
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _of_schema(call: ast.Call) -> list[ast.expr]:
    match call.func:
        case ast.Attribute(attr="check"):
            return call.args[:1]
        case ast.Name(id="part_of"):
            return call.args[2:]
        case _:
            return []


CHECKED = sorted(checked_by())


@pytest.mark.parametrize("name", CHECKED)
def test_a_parser_takes_what_its_schema_has_and_nothing_else(name: str) -> None:
    table = TABLES[name]
    assert set(table.schema["properties"]) == table.known
    # What nobody looks at is held to its type, and may be absent; the rest its parser reads later.
    fields = {**dict.fromkeys(table.known, "x"), **dict.fromkeys((*table.kept, *table.later))}
    Fields(fields, "spec").check(name)
    for field in (*table.later, "unheardOf"):
        with pytest.raises(InvalidInput) as caught:
            Fields({field: "x"}, "spec").check(name)
        assert caught.value.field == f"spec.{field}"
        assert ("not in this version" in str(caught.value)) is (field in table.later)
    assert not table.known & table.later


def test_every_part_of_a_specification_is_checked_by_its_schema() -> None:
    """Where a schema shows a part as one of its own, a parser asks for that one. Of kinds without
    effect no part is read: their whole shape is held to the schema at once."""
    kinds = [name for name, schema in SCHEMAS.items() if "apiVersion" in schema["properties"]]
    kinds = [name for name in kinds if name not in INERT]
    parts = {part for kind in kinds for part in parts_of(SCHEMAS[kind]["properties"].get("spec"))}
    assert parts - set(CHECKED) == set()


def parts_of(schema: object) -> set[str]:
    """The schemas below a field."""
    result: set[str] = set()
    waiting = re.findall(r"#/components/schemas/(\w+)", str(schema))
    while waiting:
        name = waiting.pop()
        if name not in result:
            result.add(name)
            waiting += re.findall(r"#/components/schemas/(\w+)", str(SCHEMAS[name]))
    return result


def test_every_field_is_described() -> None:
    for name, schema in SCHEMAS.items():
        for field, value in schema["properties"].items():
            assert re.search(r"[.!?]$", value["description"]), f"{name}.{field}"
    with pytest.raises(ValueError, match=r"X\.a has no description"):
        read("X - It.\n  a: string\n")
    with pytest.raises(ValueError, match="in no form"):
        read("X - It.\n  a string\n")
