"""Each check of the scripts is needed: without it, at least one scenario does not come out right.

The checks are found in the text of the scripts (``sites``), so that a new one cannot be forgotten:
it has no entry in ``KILLERS``, all scenarios are tried, and the test names it if none notices.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.ledger.redis.server import EmbeddedServer
from tests.shared.ledger.mutations.killers import KILLERS, NO_CHECKS
from tests.shared.ledger.mutations.sites import Mutant, mutants
from tests.shared.ledger.mutations.stage import Scenario, altered, found_scenarios, play, settle

MUTANTS = {f"{m.part}: {m.name}": m for m in mutants()}
FIRST = {mutant.part: name for name, mutant in reversed(MUTANTS.items()) if name in KILLERS}
"""Script -> the check that `make test` removes."""
NEEDED = [
    name if name in FIRST.values() else pytest.param(name, marks=pytest.mark.all)
    for name in MUTANTS
    if name not in NO_CHECKS
]
SCENARIOS = {scenario.name: scenario for scenario in found_scenarios()}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """One of our own: it may come to run a script for ever."""
    path = Path(tempfile.mkdtemp(prefix="qt-"))
    server = EmbeddedServer(path, path / "data", fsync="no")
    server.start()
    with redis.Redis.from_url(server.url, protocol=2) as client:
        client.config_set("busy-reply-threshold", 200)
    yield server
    server.stop()
    shutil.rmtree(path, ignore_errors=True)


def noticed(scenario: Scenario, server: EmbeddedServer) -> str | None:
    """Error that the scenario raised; None if it passed."""
    try:
        asyncio.run(play(scenario, server))
    except (Exception, pytest.fail.Exception) as error:
        settle(server)
        return f"{type(error).__name__}: {error}"
    return None


def candidates(name: str) -> list[Scenario]:
    """The scenario that noticed it last time goes first."""
    killer = f"test_{KILLERS.get(name)}"
    return sorted(SCENARIOS.values(), key=lambda scenario: scenario.name != killer)


@pytest.mark.parametrize("name", NEEDED)
def test_a_script_without_this_check_is_noticed(name: str, server: EmbeddedServer) -> None:
    mutant: Mutant = MUTANTS[name]
    with altered(mutant.part, mutant.text):
        for scenario in candidates(name):
            if noticed(scenario, server):
                return
    pytest.fail(f"{mutant}: no scenario notices; write one, or take the check away as needless")


@pytest.mark.all
def test_the_scenarios_come_out_right_with_the_scripts_as_they_are(server: EmbeddedServer) -> None:
    used = {f"test_{KILLERS[name]}" for name in MUTANTS if name in KILLERS}
    wrong = {name: noticed(s, server) for name, s in SCENARIOS.items() if name in used}
    assert {name: why for name, why in wrong.items() if why} == {}
    assert len(wrong) > 40


def test_checks_are_found_in_the_text() -> None:
    """A rule of each script, so that another way of writing does not hide them all."""
    assert len(MUTANTS) > 150
    for name in (
        "window: owner[1] ~= epoch -> false",
        "window: meta[1] ~= run -> false",
        "rules: kind == ALLOCATE and idle > capacity -> false",
        "rules: taken[name] -> false",
        "rules: rec[1] ~= heads[h + 2] -> false",
        "claim: not owns(COORDINATOR, ARGV[3]) -> false",
        "bless: not knows_what_was_seen() -> false",
        "record: BOUND to 0",
        "store: above == qid -> false",
    ):
        assert name in MUTANTS, name


def test_the_excluded_mutants_still_exist() -> None:
    assert set(NO_CHECKS) <= set(MUTANTS)


def test_each_killer_is_a_scenario_and_kills_a_mutant() -> None:
    """A name that nothing has would only make its mutant slow: all scenarios would be tried."""
    assert {f"test_{killer}" for killer in KILLERS.values()} <= set(SCENARIOS)
    assert set(KILLERS) <= set(MUTANTS)
