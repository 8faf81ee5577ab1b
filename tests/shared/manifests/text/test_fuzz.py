"""Any text is answered soon, by a value or a TextError; written text is read back unchanged."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import Refusal
from shared.manifests.parse import parse
from shared.manifests.text.errors import TextError, TextLimits
from shared.manifests.text.text import read_objects, read_values
from tests.examples import examples

pytestmark = pytest.mark.timeout(100)
SMALL = TextLimits(size=100_000, depth=64, objects=100, values=10_000)

_PIECES = st.sampled_from(
    [
        *("a", "b", "x: ", "- ", "? ", ": ", "\n", "\n  ", "---\n", "...\n", "{", "}", "[", "]"),
        *(
            ",",
            '"',
            "'",
            "\\",
            "&a ",
            "*a",
            "<<: ",
            "!!str ",
            "!!int ",
            "!x ",
            "%YAML 1.1\n",
            "|\n",
        ),
        *(">-\n ", "# c\n", "~", "null", "true", "0x", "1e9", "-.5", ".nan", "0b_", "\t", "\ufeff"),
        *("kind: List\n", "items:\n", "apiVersion: v1\n", "kind: Pod\n", "metadata: {name: a}\n"),
        *(
            '{"kind": "List", "items": [',
            '"a": 1,',
            "\\ud800",
            "\\u0000",
            "\x00",
            "\x85",
            "é",
            "😀",
        ),
    ]
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs", "Cc"])), inner, max_size=4
        )
    ),
    max_leaves=20,
)


def check_plain(value: Any) -> None:
    """Nothing but JSON, of the allowed depth."""
    again = orjson.loads(orjson.dumps(value))
    assert again == value


def read(text: str | bytes, form: str) -> None:
    try:
        objects = read_objects(text, form=form, limits=SMALL)  # type: ignore[arg-type]
    except TextError as error:
        assert str(error)
        assert error.line >= 0
        return
    for obj in objects:
        assert type(obj) is dict
        check_plain(obj)
        manifest = parse(obj)
        assert not isinstance(manifest, Refusal) or manifest.message


@settings(max_examples=examples(600))
@given(st.lists(_PIECES, max_size=40).map("".join), st.sampled_from(["json", "yaml", "either"]))
@example("{" * 70, "either")
@example("? ? ? a", "yaml")
@example("- - - -", "yaml")
@example("&a *a", "yaml")
@example("*a : &a x", "yaml")
@example("<<: &a {<<: *a}", "yaml")
@example("!!int 0b_", "yaml")
@example("%YAML 9.9\n---\na", "yaml")
@example("a: \\u0085\x85", "yaml")
@example('{"kind": "List", "items": {}}', "either")
@example('{"kind": 1, "items": []}', "either")
@example('{"kind": "xList", "apiVersion": 5, "items": [{"kind": null}]}', "either")
def test_any_text_is_answered(text: str, form: str) -> None:
    read(text, form)


@settings(max_examples=examples(300))
@given(st.binary(max_size=200), st.sampled_from(["json", "yaml", "either"]))
def test_any_bytes_are_answered(data: bytes, form: str) -> None:
    read(data, form)


@settings(max_examples=examples(200))
@given(st.text(max_size=100))
def test_any_characters_are_answered(text: str) -> None:
    read(text, "either")


@settings(max_examples=examples(300))
@given(_VALUES)
def test_json_comes_back(value: Any) -> None:
    assert read_values(orjson.dumps(value), form="json") == [value]
    assert read_values(json.dumps([value]), form="either") == [[value]]


@settings(max_examples=examples(300))
@given(_VALUES)
def test_yaml_comes_back(value: Any) -> None:
    text = yaml.dump([value], Dumper=_Plain, allow_unicode=True)
    assert read_values(text, form="yaml") == [[value]]


class _Plain(yaml.SafeDumper):
    """Quotes every text: plain ones mean more to YAML 1.1 than to us."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Plain.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)
