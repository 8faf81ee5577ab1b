"""The table of events, from which the reference page is made, against histories of runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args

from coordinator.cluster.events import EventKind
from coordinator.cluster.history import events
from coordinator.cluster.history.fields import (
    CLUSTER_EVENTS,
    HEAD,
    LEDGER_EVENTS,
    LEDGER_HEAD,
    EventFields,
)
from tests.laboratory.checker.rich import rich_history
from tests.laboratory.checker.rich_kai import kai_history

TABLES = {
    "ledger": (HEAD | LEDGER_HEAD, LEDGER_EVENTS),
    "cluster": (HEAD, CLUSTER_EVENTS),
}


def _mistakes(event: dict[str, Any], head: dict[str, str], kinds: Iterable[EventFields]) -> str:
    table = {kind.kind: kind.fields for kind in kinds}
    if event["ev"] not in table:
        return f"{event['ev']}: no such event in the table"
    own = head | table[event["ev"]]
    required = {name for name in own if not name.endswith("?")}
    if event["ev"] == "epoch":
        required.discard("seq")
    possible = {name.rstrip("?") for name in own}
    if event.keys() >= required and event.keys() <= possible:
        return ""
    return f"{event['ev']}: {sorted(event.keys() ^ required)}"


def test_every_event_of_a_run_has_the_fields_of_the_table() -> None:
    mistakes = {
        _mistakes(event, *TABLES[event["src"]]) for event in (*rich_history(), *kai_history())
    }
    assert mistakes == {""}


def test_runs_show_most_kinds_of_the_table() -> None:
    """Otherwise the test above would compare too little."""
    kinds = {event["ev"] for event in (*rich_history(), *kai_history())}
    assert kinds >= {"class", "node", "queue", "job", "object", "policy", "partition", "commit"}
    assert kinds >= {"status", "epoch", "bind", "start", "delete", "acknowledged", "end"}


def test_table_has_every_kind_that_the_code_writes() -> None:
    written = set(re.findall(r'"ev": "(\w+)"', inspect.getsource(events))) | {*get_args(EventKind)}
    assert {kind.kind for kind in (*LEDGER_EVENTS, *CLUSTER_EVENTS)} == written
