"""Texts as people and programs write them: what is read, and what a mistake is told as."""

from __future__ import annotations

import itertools

import orjson
import pytest

from shared.manifests.text.errors import TextError, TextLimits
from shared.manifests.text.text import read_list, read_object, read_objects, read_values

QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}


def wrong(text: str | bytes, **options: object) -> TextError:
    with pytest.raises(TextError) as caught:
        read_objects(text, **options)  # type: ignore[arg-type]
    assert ";" in caught.value.message, "no remedy"
    return caught.value


# --- what is read -----------------------------------------------------------------------------


def test_documents_lists_and_nothing_between() -> None:
    text = """
# a comment
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- apiVersion: v1
  kind: List
  items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]
---
---
apiVersion: v1
kind: Pod
metadata: {name: c}
"""
    assert [o["metadata"]["name"] for o in read_objects(text)] == ["a", "b", "c"]
    assert read_objects("") == read_objects("---\n---\n") == read_objects("# nothing") == []


def test_a_list_of_one_kind_gives_its_kind_to_its_items() -> None:
    value = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{"metadata": {}}]}
    assert read_objects(orjson.dumps(value)) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {}}
    ]
    assert read_objects('{"apiVersion": "v1", "kind": "List", "items": null}') == []


def test_json_values_one_after_the_other() -> None:
    assert read_values('{"a": 1}\n{"b": [2, null, true, 0.5]}') == [
        {"a": 1},
        {"b": [2, None, True, 0.5]},
    ]


def test_yaml_that_begins_with_a_bracket() -> None:
    assert read_values("{a: 1, b: [x, y]}") == [{"a": 1, "b": ["x", "y"]}]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("yes", True),
        ("off", False),
        ("'yes'", "yes"),
        ("y", "y"),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("0", 0),
        ("017", 15),
        ("0o17", 15),
        ("-017", -15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("08", "08"),
        ("0b_", "0b_"),
        ("1:30", "1:30"),
        ("18446744073709551615", 2**64 - 1),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("3.0", 3),
        ("-0.0", 0),
        ("2.", 2),
        ("1e30", 1e30),
        (".5", 0.5),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("!!timestamp 2026-01-31", "2026-01-31"),
        ("|\n  two\n  lines", "two\nlines\n"),
    ],
)
def test_scalars(written: str, value: object) -> None:
    (read,) = read_values(f"a: {written}\n")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


def test_keys_are_text_as_written() -> None:
    assert read_values("1: a\ntrue: b\n~: c") == [{"1": "a", "true": "b", "~": "c"}]


def test_aliases_are_copies() -> None:
    (value,) = read_values("a: &x {n: [1]}\nb: *x\nc: &t text\n*t : *t")
    assert value == {"a": {"n": [1]}, "b": {"n": [1]}, "c": "text", "text": "text"}
    value["b"]["n"].append(2)
    assert value["a"] == {"n": [1]}


def test_merged_keys_give_way() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\nd: {<<: *b}"
    (value,) = read_values(text)
    assert value["c"] == {"z": 3, "x": 1, "y": 1}
    assert value["d"] == {"y": 2, "z": 2}
    assert read_values("'<<': 1") == [{"<<": 1}]


def test_a_byte_order_mark_is_no_text() -> None:
    assert read_values("\ufeff{}") == read_values(b"\xef\xbb\xbf{}") == [{}]


def test_one_object() -> None:
    assert read_object("---\na: 1\n---\n") == {"a": 1}
    for text in ("a: 1\n---\nb: 2", "", "[1]", "text"):
        with pytest.raises(TextError):
            read_object(text)


# --- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "field", "says"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", 4, "b.c", "written twice"),
        ("a:\n- b: 1\n  b: 2", 3, "a[0].b", "written twice"),
        ('{"a": 1,\n"b": {"c": 1,\n"c": 2}}', 3, "b.c", "written twice"),
        ("a: {<<: {x: 1}, <<: {y: 1}}", 1, "a.<<", "written twice"),
        ("kind: Pod\nmetadata: [\n", 3, "", "not YAML"),
        ("a:\n\tb: 1", 2, "", "tab"),
        ('{"kind": "Pod",\n "metadata" {}}', 2, "", "not JSON"),
        ("a: *b", 1, "a", "repeats"),
        ("a: &a [*a]", 1, "a[0]", "repeats"),
        ("a: !!python/object:os.system x", 1, "a", "unknown"),
        ("a: !!set {x}", 1, "a", "unknown"),
        ("a: !!int x", 1, "a", "type"),
        ("a:\n  b: .inf", 2, "a.b", "JSON"),
        ("a: 18446744073709551616", 1, "a", "64 bits"),
        ("a: 1e999", 1, "a", "too large"),
        ("? [a]\n: b", 1, "", "key"),
        ("a: &x [1]\n*x : 2", 2, "", "no text"),
        ("a: {<<: 1}", 1, "a.<<", "object"),
        ("kind: Pod\n---\nkind", 2, "", "not an object"),
        ("kind: List\nitems: [{}, 5]", 1, "items[1]", "not an object"),
        ("kind: List\nitems: 5", 1, "items", "not a list"),
        ("kind: List\nitems: []\nextra: 1", 1, "extra", "no field"),
        (b"a: 1\nb: \xff", 2, "", "UTF-8"),
        ('{"a": NaN}', 0, "", "no number"),
        ('{"a": 1e999}', 0, "", "too large"),
        ('{"a": 123456789012345678901}', 0, "", "64 bits"),
        ('{"a": "\\ud800"}', 0, "", "half of a character"),
        ("a: \ud800", 1, "", "half of a character"),
        ("a: \x07", 0, "", "not YAML"),
    ],
)
def test_a_mistake_says_where(text: str | bytes, line: int, field: str, says: str) -> None:
    error = wrong(text)
    assert (error.line, error.field) == (line, field)
    assert says in error.message
    assert (f"line {line}" in str(error)) == (line > 0)


def test_limits() -> None:
    small = TextLimits(size=1000, depth=4, objects=3, values=100)
    assert read_values("[[[[1]]]]", limits=small) == [[[[[1]]]]]
    for form in ("json", "yaml", "either"):
        assert "deeper than 4" in wrong("[[[[[1]]]]]", form=form, limits=small).message
    assert "larger than" in wrong("#" * 1001, limits=small).message
    assert "larger than" in wrong("#" * 998 + "ä" * 2, limits=small).message
    assert len(read_objects("{}" * 3, limits=small)) == 3
    assert "at most 3" in wrong("{}" * 4, limits=small).message
    assert "at most 3" in wrong("{kind: List, items: [{}, {}, {}, {}]}", limits=small).message
    assert "100 values" in wrong("[" + "1," * 101 + "]", form="yaml", limits=small).message


def test_brackets_in_texts_are_not_depth() -> None:
    value = {"a": "[[[[" * 50 + '\\"{{{', "b": ["]" * 100, {"c": "}"}]}
    assert read_values(orjson.dumps(value), limits=TextLimits(depth=3)) == [value]
    with pytest.raises(TextError, match="deeper"):
        read_values(orjson.dumps(value), limits=TextLimits(depth=2))


def test_mixed_brackets_count_alike() -> None:
    text = '{"a":' * 32 + "[" * 32 + "]" * 32 + "}" * 32
    assert len(read_values(text)) == 1
    with pytest.raises(TextError, match="deeper"):
        read_values(f"[{text}]")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    "piece", ["[", '{"a":', "[[]", "- ", "&a ", "*a ", "? ", "!", "'", "{", "\\"]
)
def test_endless_repetition_ends(piece: str, form: str) -> None:
    with pytest.raises(TextError):
        read_objects(piece * 200_000 + "1", form=form)  # type: ignore[arg-type]


@pytest.mark.timeout(20)
def test_aliases_of_aliases_are_bounded() -> None:
    names = "abcdefghijkl"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join(['*' + before] * 9)}]"
        for before, name in itertools.pairwise(names)
    ]
    assert "more than" in wrong("\n".join(lines)).message
    long = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]"
    assert "repeat more than" in wrong(long).message


# --- the fast way -----------------------------------------------------------------------------


def test_a_list_in_bulk() -> None:
    body = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [QUEUE, 5]}
    assert read_list(orjson.dumps(body)) == [QUEUE, 5]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (b'{"kind": "List"}', "apiVersion is missing; write v1"),
        (b'{"apiVersion": "v1", "kind": "Pod"}', "write List"),
        (b'{"apiVersion": "v1", "kind": "List", "items": {}}', "not a list"),
        (b'{"apiVersion": "v1", "kind": "List", "items": [], "x": 1}', "no field"),
        (b'{"apiVersion": "v1", "kind": "List", "items": [1, 2, 3, 4]}', "at most 3"),
        (b'{"apiVersion": "v1", "kind": "List", "items": [[[[1]]]]}', "deeper than 4"),
        (b"[" * 5000, "not JSON"),
        (b"#" * 1001, "larger"),
    ],
)
def test_a_wrong_list_in_bulk(body: bytes, says: str) -> None:
    limits = TextLimits(size=1000 if body[:1] == b"#" else 1 << 20, depth=4, objects=3)
    with pytest.raises(TextError, match=says):
        read_list(body, limits=limits)
