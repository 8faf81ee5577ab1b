"""Secrets in files for this user alone: other users can list an environment and a command line."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def new_secret() -> str:
    """256 random bits as text."""
    return secrets.token_hex(32)


def write_secret(path: Path, secret: str) -> Path:
    """Write a secret to a new file, replacing any old one; its content is never readable
    to others."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(secret)
    return path
