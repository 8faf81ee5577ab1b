"""Selectors: what they mean, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.read.selectors import LONGEST, field_conditions, label_conditions, selector_of
from coordinator.errors import Problem

LABELS = {"app": "web", "tier": "test", "age": "7", "k8s.io/x": ""}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier = test ", True),
        ("app=db", False),
        ("app!=db", True),
        ("none!=db", True),
        ("none=", False),
        ("k8s.io/x=", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app in (db,)", False),
        ("app notin (db)", True),
        ("none notin (db)", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("! app", False),
        ("age>6", True),
        ("age > 7", False),
        ("age<8,age>6", True),
        ("app>1", False),
        ("none<1", False),
        ("app=web,tier!=test", False),
    ],
)
def test_labels(text: str, holds: bool) -> None:
    assert all(c.holds(LABELS.get(c.key)) for c in label_conditions(text)) is holds


@pytest.mark.parametrize(
    "text",
    ["a=b=c", "a in b", "a in (b", "a in", "=b", "a=b c", "a,,b", "a!b", "-a", "a=-b", "a>x", "a=(",
     "a b", "(", "a=" + "b" * 64, "ä=b"],
)  # fmt: skip
def test_no_selector_of_labels(text: str) -> None:
    with pytest.raises(Problem, match="labelSelector") as caught:
        label_conditions(text)
    assert (caught.value.status, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("a.b=x", True),
        ("a.b==x", True),
        ("a.b!=x", False),
        ("a.b=x,c=y=z", True),
        ("c=y\\=z", True),
        ("d=1\\,2", True),
        ("d=1", False),
        ("c!=", True),
        ("e=", True),
    ],
)
def test_fields(text: str, holds: bool) -> None:
    values = {"a.b": "x", "c": "y=z", "d": "1,2", "e": ""}
    fields = frozenset(values)
    assert all(c.holds(values[c.key]) for c in field_conditions(text, selectable=fields)) is holds


@pytest.mark.parametrize("text", ["x=1", "a.b", "=x", "a.b>1"])
def test_no_selector_of_fields(text: str) -> None:
    with pytest.raises(Problem, match="fieldSelector"):
        field_conditions(text, selectable=frozenset(("a.b",)))


def test_a_long_one_is_not_even_looked_at() -> None:
    with pytest.raises(Problem, match=f"longer than {LONGEST}"):
        selector_of("a," * LONGEST, "", selectable=frozenset())


def test_the_one_value_of_a_field() -> None:
    fields = frozenset(("metadata.name", "x"))
    assert selector_of("", "x=1,metadata.name=n", selectable=fields).only("metadata.name") == "n"
    assert selector_of("", "metadata.name!=n", selectable=fields).only("metadata.name") is None


@given(st.text(alphabet="ab=!(),<> \\.notin", max_size=30) | st.text(max_size=30))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    for read in (label_conditions, lambda t: field_conditions(t, selectable=frozenset(("a",)))):
        try:
            conditions = read(text)
        except Problem as problem:
            assert problem.status == 400
        else:
            assert all(isinstance(c.holds(v), bool) for c in conditions for v in (None, "", "a"))
