"""The ledger's interface for the audit: consistent reads of its tables at one log position.

The totals of nodes, queues and groups are sums over task records, nominations and class records.
The audit (:mod:`coordinator.ledger_audit`) looks for totals that are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from shared.ledger.entries.log import LogEntry


class Table(StrEnum):
    """The ledger's hashes that the audit reads."""

    META = "meta"
    NODE = "node"
    NODE_SPEC = "nodespec"
    QUEUE = "queue"
    CLASS = "class"
    JOB = "job"
    JOB_SPEC = "jobspec"
    TASK = "task"
    NOMINATION = "nom"
    DOMAIN = "domain"
    THING = "thing"


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Records of one table, as of right after the last of ``entries``."""

    entries: Iterable[LogEntry | None]
    """The log after the requested position. Each entry is unpacked when it is taken, a large one in
    portions under the same id; None where a portion took a while. Unpacking is most of what
    following the log costs."""
    current: bool
    """Whether the log had no further entries; if it had, ``records`` is empty: ask again."""
    cursor: int = 0
    """Where to go on in the table; 0 at its end."""
    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    """(field, record). A field may occur twice if the table is rehashed meanwhile."""
