"""Files of tokens, written out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

HASH = "ab" * 32


def entry(name: str, role: str, token: str, *, queues: list[str] | None = None) -> str:
    """One entry of the file."""
    code = hashlib.sha256(token.encode()).hexdigest()
    where = "" if queues is None else f", queues: {json.dumps(queues)}"
    return f"- {{name: {name}, role: {role}{where}, hash: {code}}}\n"


def write_tokens(path: Path, *entries: str) -> Path:
    path.write_text("".join(entries))
    return path
