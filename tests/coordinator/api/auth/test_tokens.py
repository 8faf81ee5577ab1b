"""The file of tokens: what it says, what is wrong with it, how it is followed while it changes."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest

from coordinator.api.auth.token_file import TokenFile
from coordinator.api.auth.tokens import TokenError, entry_of, new_token, parse_tokens
from coordinator.intake.principal import Principal, TokenRole
from shared.settings.settings import SettingsError
from shared.telemetry.logging import configure_logging
from tests.coordinator.api.auth.files import HASH, entry, write_tokens


def test_a_token_is_found_by_its_hash_alone() -> None:
    view, submit = new_token(), new_token()
    book = parse_tokens(
        entry("a", "view", view) + entry("b", "submit", submit, queues=["research", "ops"])
    )
    a, b = book.find(view), book.find(submit)
    assert a is not None
    assert (a.name, a.role, a.queues) == ("a", TokenRole.VIEW, None)
    assert b is not None
    assert (b.role, b.queues) == (TokenRole.SUBMIT, frozenset(("research", "ops")))
    for wrong in ("", view[:-1], view + "x", HASH, hashlib.sha256(view.encode()).hexdigest()):
        assert book.find(wrong) is None


def test_a_token_has_the_limits_that_are_written() -> None:
    old, new, look = new_token(), new_token(), new_token()
    book = parse_tokens(
        entry("old", "submit", old)
        + entry("new", "submit", new, queues=["q"], namespaces=["a", "b"], priorityClasses=["c"])
        + entry("look", "view", look, namespaces=["a"])
    )
    assert book.find(old) == Principal("old", TokenRole.SUBMIT), "a file of an older version"
    names = [frozenset("q"), frozenset("ab"), frozenset("c")]
    assert book.find(new) == Principal("new", TokenRole.SUBMIT, *names)
    assert book.find(look) == Principal("look", TokenRole.VIEW, namespaces=frozenset("a"))


def test_a_token_has_256_bits_and_is_new_each_time() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    for token in tokens:
        assert len(token.removeprefix("qdt_")) == 43  # 32 bytes in base64


def test_a_token_entry_holds_the_hash_only() -> None:
    token = new_token()
    entry = entry_of(token, name="a", role="submit", queues=["q"])
    assert entry == {
        "name": "a",
        "role": "submit",
        "queues": ["q"],
        "hash": hashlib.sha256(token.encode()).hexdigest(),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a list of tokens"),
        ("[]", "not a list of tokens"),
        ("name: a", "not a list of tokens"),
        ("- a", "entry 1: not a mapping"),
        ("- {name: a, role: view, hash", "not YAML"),
        (f"- {{role: view, hash: {HASH}}}", "entry 1: name: not a name"),
        (f"- {{name: a b, role: view, hash: {HASH}}}", "entry 1: name: not a name"),
        (f"- {{name: a, role: root, hash: {HASH}}}", "entry 1 (a): role: 'root'; write view,"),
        (f"- {{name: a, hash: {HASH}}}", "entry 1 (a): role: missing"),
        (f"- {{name: a, role: [view], hash: {HASH}}}", "entry 1 (a): role: list of 1"),
        ("- {name: a, role: view}", "entry 1 (a): hash: not a SHA-256"),
        (f"- {{name: a, role: view, hash: {HASH}, rule: x}}", "'rule' is no field of a token"),
        (f"- {{name: a, role: view, queues: [q], hash: {HASH}}}", "role view has none"),
        (f"- {{name: a, role: admin, queues: [q], hash: {HASH}}}", "role admin has none"),
        (f"- {{name: a, role: admin, namespaces: [n], hash: {HASH}}}", "use view or submit"),
        (f"- {{name: a, role: view, namespaces: n, hash: {HASH}}}", "namespaces: not a list"),
        (f"- {{name: a, role: view, priorityClasses: [c], hash: {HASH}}}", "role view has none"),
        (
            f"- {{name: a, role: submit, priorityClasses: {{}}, hash: {HASH}}}",
            "not a list of names",
        ),
        (f"- {{name: a, role: submit, queues: [], hash: {HASH}}}", "not a list of names"),
        (f"- {{name: a, role: submit, queues: q, hash: {HASH}}}", "not a list of names"),
        (f"- {{name: a, role: submit, queues: [1], hash: {HASH}}}", "not a list of names"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(TokenError) as error:
        parse_tokens(text)
    assert message in str(error.value)


def test_names_and_hashes_are_not_used_twice() -> None:
    with pytest.raises(TokenError, match="entry 2 has the name of entry 1"):
        parse_tokens(entry("a", "view", "1") + entry("a", "view", "2"))
    with pytest.raises(TokenError, match="entry 2 has the hash of entry 1"):
        parse_tokens(entry("a", "view", "1") + entry("b", "view", "1"))


def test_no_error_repeats_a_token_that_stands_where_its_hash_should() -> None:
    token = new_token()
    with pytest.raises(TokenError) as error:
        parse_tokens(f"- {{name: a, role: view, hash: {token}}}")
    assert token not in str(error.value)


# --- following the file -----------------------------------------------------------------------


def test_a_changed_file_counts_once_it_has_settled(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    old, new = new_token(), new_token()
    path.write_text(entry("a", "view", old))
    tokens = TokenFile(path)
    path.write_text(entry("b", "view", new))
    assert not tokens.look()
    assert tokens.find(old) is not None, "one look is not enough: it may be half written"
    assert tokens.look()
    assert tokens.find(old) is None
    assert tokens.find(new) is not None
    assert not tokens.look()


@pytest.mark.parametrize("bad", ["[]", "- {name: a", None, b"\xff\xfe"])
def test_a_bad_file_changes_only_the_message(tmp_path: Path, bad: str | bytes | None) -> None:
    path = tmp_path / "tokens.yaml"
    token = new_token()
    path.write_text(entry("a", "view", token))
    lines = io.StringIO()
    configure_logging("info", "json", stream=lines)
    tokens = TokenFile(path)
    if bad is None:
        path.unlink()
    else:
        path.write_bytes(bad.encode() if isinstance(bad, str) else bad)
    for _ in range(4):
        assert not tokens.look()
    assert tokens.error
    assert tokens.find(token) is not None
    assert lines.getvalue().count("Kept the old tokens") == 1
    assert token not in lines.getvalue()
    write_tokens(path, entry("a", "view", token))
    for _ in range(2):
        tokens.look()
    assert tokens.error == ""


@pytest.mark.parametrize("content", [None, "[]"])
def test_a_server_does_not_start_with_a_bad_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokens.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError) as error:
        TokenFile(path)
    assert str(error.value).startswith(f"QUADRANT_TOKENS_FILE: {path}: ")
