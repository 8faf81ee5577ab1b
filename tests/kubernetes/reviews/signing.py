"""A token of the API server with other times, signed with its own key."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

_SIZE = 32
"""Bytes of each of the two numbers of a signature on P-256."""


def signed_anew(token: str, key: Path, **claims: int) -> str:
    """The same token with these claims (``exp``, ``iat``, ``nbf`` in seconds since 1970)."""
    head, body, _ = token.split(".")
    payload = json.loads(_decoded(body)) | claims
    signed = f"{head}.{_encoded(json.dumps(payload).encode())}"
    der = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", key],
        input=signed.encode(),
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    return f"{signed}.{_encoded(_raw(der))}"


def _raw(der: bytes) -> bytes:
    """JOSE's form of a signature: both numbers, one after the other."""
    numbers, rest = [], der[2:]
    for _ in range(2):
        length = rest[1]
        numbers.append(int.from_bytes(rest[2 : 2 + length], "big"))
        rest = rest[2 + length :]
    return b"".join(number.to_bytes(_SIZE, "big") for number in numbers)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
