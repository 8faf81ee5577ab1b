"""Writes that the ledger refuses: counted, logged, and reported to the request that caused them.

A refused script wrote nothing, so the process that sent it has lost nothing and goes on. Only two
things end a coordinator: another one leads, or the ledger is not ours.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from http import HTTPStatus

import structlog

from coordinator.errors import Problem
from shared.ledger.errors import LedgerAltered, LedgerArgument, LedgerError, LedgerFault

log = structlog.get_logger(__name__)

REFUSED = (LedgerArgument, LedgerFault, LedgerAltered)
"""Errors of a write that nothing of was applied, and that it would meet again."""


class WriteKind(StrEnum):
    STORE = "store"
    """Objects, of clients and of the coordinator."""
    RECORD = "record"
    """States of tasks."""


class StoreRefused(Problem):
    """The ledger refused to store what one request asks for; nothing of it is stored or known."""

    def __init__(self, error: LedgerError) -> None:
        match error:
            case LedgerArgument():
                status = HTTPStatus.UNPROCESSABLE_ENTITY
                message = f"the ledger refuses it: {error}; nothing of it is stored, change it"
            case LedgerAltered():
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                message = f"the ledger refuses it: {error}"
            case _:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                message = (
                    f"the ledger cannot store it: {error}; nothing of it is stored, and it would "
                    "fail again: send it in smaller parts, and report what the coordinator's log "
                    "says of it"
                )
        super().__init__(status, message)


class LedgerRefusals:
    """The number of refusals since the start of this process, by what was written."""

    def __init__(self) -> None:
        self.count: Counter[WriteKind] = Counter()

    def refused(self, kind: WriteKind, error: LedgerError, subject: str) -> None:
        """``subject``: the objects or tasks it was about."""
        self.count[kind] += 1
        log.error("The ledger refused a write", kind=kind, what=subject, error=str(error))
