"""The file of tokens: who may come in. It holds hashes, never a token.

A YAML list; each entry is one token::

    - name: team-a
      role: submit            # view, submit or admin
      queues: [research]      # of a submitter: where jobs may go; absent = everywhere
      namespaces: [team-a]    # of view and submit: what is read and written; absent = everything
      priorityClasses: [high] # of a submitter: what jobs may name; absent = all but system classes
      hash: 9f86d081884c7d65...

A token has 256 random bits, so that a plain SHA-256 cannot be undone by guessing. No error repeats
what stood in the file at ``hash``: somebody may have put the token itself there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.intake.principal import Principal, TokenRole
from shared.errors import shown
from shared.policy.model import PolicyError
from shared.policy.reading import load_yaml

PREFIX = "qdt_"
"""Prefix of every token, so that leaked ones can be found in files and logs."""

LONGEST = 512
"""Maximum characters of a submitted token that are read."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.@]{0,61}[A-Za-z0-9])?")
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = frozenset(("name", "role", "queues", "namespaces", "priorityClasses", "hash"))
_ROLES = {role.word: role for role in TokenRole}


class TokenError(ValueError):
    """The token file cannot be used; the message has the problem and remedy, not the file's
    name."""


@dataclass(frozen=True, slots=True)
class TokenEntry:
    principal: Principal
    digest: bytes
    """SHA-256 of the token, 32 bytes."""


class TokenBook:
    """The valid tokens."""

    def __init__(self, entries: tuple[TokenEntry, ...]) -> None:
        self.entries = entries

    def find(self, token: str) -> Principal | None:
        """The principal of a token. Compares with all tokens, so that the time reveals nothing."""
        # Cut first: hashing takes as long as what somebody sends.
        sent = digest(token[:LONGEST])
        principal = None
        for entry in self.entries:
            if hmac.compare_digest(entry.digest, sent):
                principal = entry.principal
        return principal


def new_token() -> str:
    """A new token with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def entry_of(
    token: str,
    *,
    name: str,
    role: str,
    queues: list[str],
    namespaces: list[str] | None = None,
    priority_classes: list[str] | None = None,
) -> dict[str, Any]:
    """An entry for the token file; an empty list means no limit. Raises TokenError."""
    entry: dict[str, Any] = {"name": name, "role": role}
    if queues:
        entry["queues"] = queues
    if namespaces:
        entry["namespaces"] = namespaces
    if priority_classes:
        entry["priorityClasses"] = priority_classes
    entry["hash"] = digest(token).hex()
    # Read back by the rules of the file: what this makes the server must take.
    _entry(entry, "token")
    return entry


def parse_tokens(text: str) -> TokenBook:
    """Parse a token file. Raises TokenError."""
    try:
        document = load_yaml(text)
    except PolicyError as error:
        raise TokenError(str(error).replace("the policy", "it", 1)) from None
    if not isinstance(document, list) or not document:
        raise TokenError("it is not a list of tokens; make one with quadrant token new --file")
    entries = tuple(_entry(value, f"entry {i + 1}") for i, value in enumerate(document))
    for part, values in (
        ("name", [entry.principal.name for entry in entries]),
        ("hash", [entry.digest.hex() for entry in entries]),
    ):
        for i, value in enumerate(values):
            if value in values[:i]:
                first = values.index(value) + 1
                raise TokenError(f"entry {i + 1} has the {part} of entry {first}; use another")
    return TokenBook(entries)


def _entry(value: object, at: str) -> TokenEntry:
    if not isinstance(value, Mapping):
        raise TokenError(f"{at}: not a mapping; it needs name, role and hash")
    if unknown := [shown(str(key)) for key in value if key not in _FIELDS]:
        raise TokenError(f"{at}: {unknown[0]} is no field of a token; leave it out")
    name = value.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise TokenError(
            f"{at}: name: not a name; use at most 63 letters, digits, '-', '_', '.' or '@'"
        )
    at = f"{at} ({name})"
    word = value.get("role")
    role = _ROLES.get(word) if isinstance(word, str) else None
    if role is None:
        raise TokenError(f"{at}: role: {shown(word) or 'missing'}; write {', '.join(_ROLES)}")
    code = value.get("hash")
    if not isinstance(code, str) or _HASH.fullmatch(code) is None:
        raise TokenError(
            f"{at}: hash: not a SHA-256 as 64 small hexadecimal digits; make a token anew with "
            "quadrant token new"
        )
    principal = Principal(
        name,
        role,
        _names(value, "queues", at, role, of=(TokenRole.SUBMIT,)),
        _names(value, "namespaces", at, role, of=(TokenRole.VIEW, TokenRole.SUBMIT)),
        _names(value, "priorityClasses", at, role, of=(TokenRole.SUBMIT,)),
    )
    return TokenEntry(principal, bytes.fromhex(code))


def _names(
    value: Mapping[str, Any], field: str, at: str, role: TokenRole, *, of: tuple[TokenRole, ...]
) -> frozenset[str] | None:
    """A list of names that only some roles may have; None = absent."""
    names = value.get(field)
    if names is None:
        return None
    if role not in of:
        roles = " or ".join(allowed.word for allowed in of)
        raise TokenError(f"{at}: {field}: role {role.word} has none; leave it out, or use {roles}")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n for n in names):
        raise TokenError(f"{at}: {field}: not a list of names; leave it out for all")
    return frozenset(names)
