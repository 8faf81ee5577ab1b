"""A statement that evicts, as a history has it, and its victims."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from laboratory.checker.state.job import CheckedJob

_REASON = re.compile(r"(?P<action>\w+)(?: \((?P<plugins>[^)]*)\))?(?:: for (?P<whom>.*))?")


@dataclass(frozen=True, slots=True)
class CheckedVictim:
    jid: int
    job: CheckedJob
    tix: int
    row: int
    guards: int = 0
    """Guards that its statement promised for it."""
    ran: bool = True
    """It was running, not just bound."""
    to: int = -1
    """The row that it is promised instead; -1 for none."""


@dataclass(slots=True)
class Eviction:
    """A statement that evicts. ``job``: the beneficiary."""

    statement: dict[str, Any]
    job: CheckedJob
    shard: str
    victims: list[CheckedVictim] = field(default_factory=list)
    action: str = ""
    deciding: tuple[frozenset[str], ...] = ()
    """Per deciding tier, the plugins that decided."""
    beneficiary: str = ""

    def __post_init__(self) -> None:
        match = _REASON.fullmatch(self.statement.get("reason", ""))
        if match is not None:
            self.action = match["action"]
            parts = (match["plugins"] or "").split("; ")
            self.deciding = tuple(frozenset(part.split(", ")) for part in parts if part)
            self.beneficiary = match["whom"] or ""

    @property
    def gets(self) -> list[list[int]]:
        """(tix, row, class, level) of each task that the statement places or promises a place."""
        gets: list[list[int]] = self.statement["alloc"] + self.statement["nominate"]
        return gets

    @property
    def jid(self) -> int:
        jid: int = self.statement["jid"]
        return jid
