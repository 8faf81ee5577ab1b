"""Templates as kubectl reads them. What is expected here is what kubectl 1.32 prints."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.cli.client.jsonpath import JsonPath, JsonPathError

OBJECT: dict[str, Any] = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "n": 1, "up": True},
        {"metadata": {"name": "b"}, "n": 3, "conditions": [{"type": "Ready", "status": "True"}]},
        {"metadata": {"name": "c"}, "n": 2, "none": None},
    ],
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("{$.kind}", "List"),
        ("kind: {.kind}!", "kind: List!"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "c"),
        ("{.items[3].metadata.name}", ""),
        ("{.items[*].metadata.name}", "a b c"),
        ("{.items[0:2].metadata.name}", "a b"),
        ("{.items[1:].n}", "3 2"),
        ("{.items[0,2].n}", "1 2"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
        ("{.items[0]['metadata']['name']}", "a"),
        ("{.items[0].metadata['name','labels']}", 'a {"app.kubernetes.io/name":"x"}'),
        ("{..name}", "a b c"),
        ("{.items[0].metadata.*}", 'a {"app.kubernetes.io/name":"x"}'),
        ('{.items[?(@.metadata.name=="b")].n}', "3"),
        ("{.items[?(@.n>1)].metadata.name}", "b c"),
        ("{.items[?(@.n >= 2)].metadata.name}", "b c"),
        ("{.items[?(@.n!=2)].metadata.name}", "a b"),
        ("{.items[?(@.up)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name<3)].n}", ""),
        ('{.items[1].conditions[?(@.type=="Ready")].status}', "True"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.n}{"\\n"}{end}', "a\t1\nb\t3\nc\t2\n"),
        ("{range .items[*]}{.metadata.name},{end}", "a,b,c,"),
        ("{range .items[?(@.n>1)]}[{.n}]{end}", "[3][2]"),
        ("{.items[0].up}", "true"),
        ("{.items[2].none}", ""),
        ("{.absent.deeper[0].x}", ""),
        ("{'{'}{.kind}{'}'}", "{List}"),
    ],
)
def test_render(template: str, expected: str) -> None:
    assert JsonPath(template).render(OBJECT) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.a", "not closed"),
        ("{.a[0}", "not closed"),
        ("{range .a}{.b}", "{end}"),
        ("{.a}{end}", "{range}"),
        ("{.a[x]}", "[x]"),
        ("{.a[?(x)]}", "filter"),
        ("{.a[?(@.b==c)]}", "quotes"),
        ("{.a..}", "missing"),
    ],
)
def test_a_mistake_is_told_where_it_is(template: str, message: str) -> None:
    with pytest.raises(JsonPathError) as error:
        JsonPath(template)
    assert message in str(error.value)


def test_find_gives_values_as_they_are() -> None:
    assert JsonPath("{.items[*].n}").find(OBJECT) == [1, 3, 2]
