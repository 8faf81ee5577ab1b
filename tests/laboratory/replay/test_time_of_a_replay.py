"""The time that a replay is given counts in each form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.laboratory.replay.build import FORMS, decided, group, node, pod

NIGHTS = {"tdm.revocable-zone.night": "22:00-06:00"}
UNDER = {
    "actions": "allocate",
    "tiers": [{"plugins": [{"name": "predicates"}, {"name": "tdm", "arguments": NIGHTS}]}],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("hour", "is_open"), [(23, True), (5, True), (7, False), (21, False)])
def test_a_revocable_node_is_open_within_its_hours(hour: int, is_open: bool, form: str) -> None:
    revocable = node("n")
    revocable["metadata"]["labels"] = {"volcano.sh/revocable-zone": "night"}
    waits = pod("w-0", group="w")
    waits["metadata"]["annotations"]["volcano.sh/revocable-zone"] = "*"
    now = datetime(2026, 1, 1, hour, tzinfo=UTC).timestamp()
    result = decided(form, revocable, group("w"), waits, under=UNDER, now=now)
    assert bool(result.binds) == is_open
