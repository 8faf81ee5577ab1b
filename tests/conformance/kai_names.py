"""KAI's scenarios, named one by one; a case that is not named is an error."""

from __future__ import annotations

from tests.conformance import kai_round_names, kai_single_names

NAMES = [
    f"{table}::{case}"
    for tables in (kai_single_names.TABLES, kai_round_names.TABLES)
    for table, cases in tables.items()
    for case in cases
]
