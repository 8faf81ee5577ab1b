"""What a copy of the double's data holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.ledger.memory.log import LogCopy
from shared.ledger.memory.ownership import OwnershipCopy


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    lasting: dict[str, Any]
    """Everything else, by the name of the attribute."""
    ownership: OwnershipCopy
    log: LogCopy
