"""CEL: what expressions come to, what is refused, and that nothing makes it crash or hang."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.kube_scheduler.cel.evaluate import Domains, Program, compiled
from shard_worker.kube_scheduler.cel.regex import matches
from shard_worker.kube_scheduler.cel.tree import CelError
from shard_worker.kube_scheduler.cel.values import Quantity, Semver, quantity, semver
from tests.examples import examples

DEVICE = {
    "driver": "gpu.example.com",
    "attributes": Domains(
        {
            "gpu.example.com": {
                "model": "a100",
                "index": 3,
                "healthy": True,
                "version": semver("12.4.1-rc.1"),
            }
        }
    ),
    "capacity": Domains({"gpu.example.com": {"memory": quantity("80Gi")}}),
    "allowMultipleAllocations": False,
}
OWN = 'device.attributes["gpu.example.com"]'


def value(text: str) -> object:
    return Program(text).value(DEVICE)


def fails(text: str) -> str:
    with pytest.raises(CelError) as caught:
        value(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'device.driver == "gpu.example.com"',
        f'{OWN}.model == "a100" && {OWN}["index"] == 3',
        f"{OWN}.healthy",
        f"!(3 != {OWN}.index)",
        f"{OWN}.index in [1, 3, 5]",
        f'{OWN}.model.startsWith("a") && {OWN}.model.endsWith("00")',
        f'{OWN}.model.contains("10") && !{OWN}.model.contains("x")',
        f'{OWN}.model.matches("^a[0-9]{{3}}$") && matches({OWN}.model, "1")',
        f"has({OWN}.model) && !has({OWN}.speed)",
        '!has(device.attributes["other"].model)',
        '"gpu.example.com" in device.attributes && !("other" in device.attributes)',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0',
        'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("79Gi"))',
        'device.capacity["gpu.example.com"].memory == quantity("80Gi")',
        'quantity("1500m").isLessThan(quantity("2")) && quantity("2k").asInteger() == 2000',
        'quantity("1").add(quantity("500m")).compareTo(quantity("1500m")) == 0',
        'quantity("1").sub(2).sign() == -1 && !quantity("100m").isInteger()',
        f'{OWN}.version.isGreaterThan(semver("12.3.9"))',
        f'{OWN}.version.isLessThan(semver("12.4.1"))',
        f"{OWN}.version.major() == 12 && {OWN}.version.minor() == 4 && {OWN}.version.patch() == 1",
        'isSemver("1.2.3") && !isSemver("1.2") && isQuantity("1Gi") && !isQuantity("1Gx")',
        f"cel.bind(own, {OWN}, own.index > 1 && own.healthy)",
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, -x) == [-2, -3]",
        '[1, 2, 3].filter(x, x % 2 == 1) == [1, 3] && {"a": 1}.all(k, k == "a")',
        'size("abc") == 3 && [1, 2].size() == 2 && size({"a": 1}) == 1',
        '"a" + "b" == "ab" && [1] + [2] == [1, 2] && b"ab" != b"a"',
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 7.0 / 2.0 == 3.5",
        "1 == 1.0 && 1u == 1 && 1 < 1.5 && 2u > 1 && !(1 == '1')",
        "9223372036854775807 > 0 && -9223372036854775808 < 0 && 0x1F == 31",
        "true ? true : 1 / 0 == 1",
        "true || 1 / 0 == 1",
        "!(1 / 0 == 1 && false)",
        "[0, 1].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)",
        'int("12") == 12 && int(3.9) == 3 && double(1) == 1.0 && string(12) == "12"',
        "uint(3) == 3u",
        'int("-5") == -5 && string(true) == "true" && bool("false") == false && dyn(1) == 1',
        '"A b ".lowerAscii().trim() == "a b" && "ab".upperAscii() == "AB"',
        '"a,b".split(",") == ["a", "b"] && ["a", "b"].join("-") == "a-b"',
        '"aba".replace("a", "c") == "cbc"',
        '"abc".substring(1) == "bc" && "abc".substring(0, 2) == "ab" && "abc".charAt(1) == "b"',
        '"abca".indexOf("a") == 0 && "abca".lastIndexOf("a") == 3',
        "[3, 1].min() == 1 && [3, 1].max() == 3",
        "'it\\'s' == \"it's\" && r'\\n' == '\\\\n' && '''a\nb''' == 'a\\nb'",
        "'\\u0041\\x42\\103' == 'ABC'",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 10 - 3 - 2 == 5 && !!true && - -1 == 1",
        "true // and no more",
        "null == null && {1: 2}[1] == 2 && [[1]][0][0] == 1",
    ],
)
def test_cel_expression_is_true(text: str) -> None:
    assert Program(text).holds(DEVICE) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected"),
        ("1 +", "expected"),
        ("(1", "expected"),
        ("1 2", "expected"),
        ("devices.driver", "no variable devices"),
        ("[1].all(x, y > 0)", "no variable y"),
        ("[1].all(x, x > 0) && x > 0", "no variable x"),
        ('device.attributes["some"].resourcev1.QualifiedName(...)', "no function"),
        ("launch()", "no function launch"),
        ("device.for", "reserved word"),
        ("has(device)", "selection of a field"),
        ("9223372036854775808", "too large"),
        ("'\\q'", "unknown escape"),
        ("'\\ud800'", "no character"),
        ("a @ b", "not understood at character"),
        ("(" * 40 + "1" + ")" * 40, "nested deeper"),
        ("!" * 50 + "true", "nested deeper"),
        ("device" + ".a" * 100, "more than 64"),
        ("1" * 20_000, "longer than"),
    ],
)
def test_an_invalid_cel_expression_is_an_error_with_a_reason(text: str, why: str) -> None:
    compiled_class = compiled(text)
    assert isinstance(compiled_class, CelError)
    assert why in str(compiled_class)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{OWN}.speed == 1", "no such key: speed"),
        ('device.attributes["other"].model == "a100"', "no such key: model"),
        ("device.memory", "no such key: memory"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "out of range"),
        ("1 + 1.0", "no int + double"),
        ("'a' < 1", "cannot compare"),
        ("1 && true", "true or false wanted"),
        ("quantity('x')", "of what is none"),
        ("quantity('1') < quantity('2')", "cannot compare"),
        ("'a'.startsWith(1)", "no startsWith(string, int)"),
        ("'a'.startsWith()", "no startsWith(string)"),
        ("'a'.size(1)", "does not take 1"),
        ("'a'.matches('[')", "pattern"),
        ("[1][5]", "no such element"),
        ("'ab'.map(x, x)", "not of a string"),
        ("int('x')", "no int"),
        ("-'a'", "no -string"),
    ],
)
def test_cel_evaluation_fails_with_a_reason(text: str, why: str) -> None:
    assert why in fails(text)


def test_a_selector_has_to_come_to_true_or_false() -> None:
    with pytest.raises(CelError, match="kind int"):
        Program("1").holds(DEVICE)


def test_versions_are_ordered_as_semver_orders_them() -> None:
    report = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11"
    texts = [*report.split(), "1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0"]
    versions = [semver(text) for text in texts]
    assert all(isinstance(version, Semver) for version in versions)
    assert sorted(versions, key=lambda v: v or Semver((0, 0, 0))) == versions
    assert semver("1.0.0+a") == semver("1.0.0+b") and semver("01.0.0") is None
    assert quantity("-2") == Quantity(-2000)


# --- bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, " * 7 + "true" + ")" * 7,
        "cel.bind(a, 'aaaaaaaa', cel.bind(b, a + a + a + a + a + a + a + a, b + b))" + " == ''",
        "'a'" + " + 'a'" * 1500 + " == 'a'",
        "'" + "a" * 3000 + "'.matches('(a*)*(a*)*(a*)*b')",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('((a+)+)+$b')",
        "'" + "a" * 9000 + "'.matches('(.{0,900}|x){2}b')",
    ],
)
def test_no_expression_takes_long(text: str) -> None:
    began = time.process_time()
    compiled_class = compiled(text)
    with contextlib.suppress(CelError):
        if isinstance(compiled_class, Program):
            compiled_class.value(DEVICE)
    assert time.process_time() - began < 2.0


TOKENS = (
    "device . driver attributes capacity [ ] ( ) { } , : ? && || ! == != < <= in + - * / % 1 2u 1.5"
    " 'a' \"b\" true false null x has all exists map size matches quantity semver compareTo [1,2]"
    " device.driver cel.bind 'a'.matches("
)
tokens = st.sampled_from(re.split(" ", TOKENS))


@settings(max_examples=examples(250), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(tokens, max_size=25).map(" ".join)))
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    compiled_class = compiled(text)
    if isinstance(compiled_class, Program):
        with contextlib.suppress(CelError):
            compiled_class.value(DEVICE)


def _tree(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: (f"({p[0][0]} && {p[1][0]})", p[0][1] and p[1][1])),
        pairs.map(lambda p: (f"({p[0][0]} || {p[1][0]})", p[0][1] or p[1][1])),
        pairs.map(lambda p: (f"({p[0][0]} == {p[1][0]})", p[0][1] == p[1][1])),
        children.map(lambda p: (f"!{p[0]}", not p[1])),
        st.tuples(children, children, children).map(
            lambda p: (f"({p[0][0]} ? {p[1][0]} : {p[2][0]})", p[1][1] if p[0][1] else p[2][1])
        ),
    )


leaf = st.one_of(
    st.booleans().map(lambda b: (str(b).lower(), b)),
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(
        lambda p: (f"({p[0]} + 2 * {p[1]} <= 3)", p[0] + 2 * p[1] <= 3)
    ),
)


@settings(max_examples=examples(80), deadline=None)
@given(st.recursive(leaf, _tree, max_leaves=12))
def test_expressions_evaluate_as_in_python(case: tuple[str, bool]) -> None:
    assert value(case[0]) is case[1]


# --- patterns ---------------------------------------------------------------------------------

pieces = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "^", "$", "\\b", "-"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}"])).map(
            lambda p: f"({p[0]}){p[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(pieces, st.text("ab1-", max_size=8))
def test_patterns_match_what_those_of_python_match(text: str, subject: str) -> None:
    assert matches(subject, text) is bool(re.search(text, subject, re.ASCII))


@pytest.mark.parametrize(
    "text", ["(", ")", "[", "a**", "*", "\\p", "(?=a)", "a{9999}", "[b-a]", "\\"]
)
def test_an_invalid_regular_expression_is_refused(text: str) -> None:
    with pytest.raises(CelError):
        matches("a", text)
