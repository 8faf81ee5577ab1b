"""The tokens of a chaos run: for its own load, and for a tenant with few rights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson

from coordinator.api.auth.tokens import entry_of, new_token
from laboratory.chaos.hostile_tenant import NAMESPACE, QUEUE, queue_names


@dataclass(frozen=True, slots=True)
class Tokens:
    file: Path
    admin: str
    view: str
    submit: str
    """May submit jobs in the tenant's namespace to its queues."""

    @classmethod
    def new(cls, file: Path) -> Self:
        """Create tokens, and write their file for the coordinators (JSON is valid YAML)."""
        tokens = cls(file, *(new_token() for _ in range(3)))
        entries = [
            entry_of(tokens.admin, name="load", role="admin", queues=[]),
            entry_of(tokens.view, name="tenant-view", role="view", queues=[]),
            entry_of(
                tokens.submit,
                name="tenant",
                role="submit",
                queues=[QUEUE, *queue_names()],
                namespaces=[NAMESPACE],
            ),
        ]
        file.touch(mode=0o600)
        file.write_bytes(orjson.dumps(entries))
        return tokens
