"""Which workers help with a search, which answer counts, and when the turn is done alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.dispatch.shared_searches import AskHelp, HelpResult, SharedSearches, StopHelp
from shared.codec.packed import replace
from shared.messages.messages import Epoch, Outcome, OutcomeCode, Turn
from shared.messages.search_part import SearchPart
from shared.policy.dialect import parse_policy
from tests.coordinator.dispatch.test_dispatch import dispatcher
from tests.coordinator.dispatch.test_dispatch import turn as flat_turn

POLICY = parse_policy({"dialect": "kai", "scenarioSearchBudgets": {}})
WIDE = {0: 8000}
"""More than any node has."""
HERE, LATER = "5-0", "6-0"
"""Positions of the log."""
VAIN = SearchPart(solved=False, simulated=2, position=HERE)
SOLVED = SearchPart(solved=True, simulated=3, position=HERE)


def turn(jid: int = 1, **fields: Any) -> Turn:
    return replace(flat_turn(jid, tasks=2), **{"action": "reclaim", "world": b"x", **fields})


def outcome(jid: int = 1, part: SearchPart | None = VAIN) -> Outcome:
    code = OutcomeCode.INFEASIBLE
    return Outcome(jid=jid, code=code, placements=[], reasons={"a part": 0}, part=part)


@dataclass
class Searching:
    """Shards that are up and idle, and what is done with turns for the first of them."""

    shards: int = 3
    apart: bool = False
    dispatcher: Dispatcher = field(init=False)
    failed: list[tuple[int, Outcome]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dispatcher = dispatcher(self.shards)
        self.searches = SharedSearches(
            self.dispatcher,
            failed=lambda shard, outcome: self.failed.append((shard, outcome)),
            apart=self.apart,
        )

    def open(self, *turns: Turn, need: dict[int, int] = WIDE) -> list[AskHelp | StopHelp]:
        for made in turns:
            shard = self.dispatcher.route(made, need)
            self.searches.opened(made, need, shard)
        return self.searches.share(POLICY)

    def sent(self) -> dict[int, list[Turn]]:
        return {send.shard: send.turns for send in self.dispatcher.send()}

    def found_nothing(self, part: SearchPart = VAIN) -> list[Outcome]:
        """The turn's own worker has done its part."""
        [(shard, call)] = [(s.shard, c) for s in self.states() for c, t in s.calls.items() if t]
        self.dispatcher.returned(shard, call)
        return self.searches.returned(shard, [outcome(part=part)])

    def idle(self) -> list[int]:
        return [state.shard for state in self.states() if state.is_idle]

    def states(self) -> list[Any]:
        return list(self.dispatcher.shards.values())


def test_an_idle_worker_has_the_generators_after_the_first() -> None:
    case = Searching()
    [ask] = case.open(turn())  # two generators: one is tried elsewhere
    assert isinstance(ask, AskHelp)
    assert (ask.shard, ask.home, ask.turn.part) == (1, 0, (1, 2))
    [own] = case.sent()[0]
    assert own.part == (0, 1)


@pytest.mark.parametrize(
    "made",
    [
        turn(traced=True),
        turn(action="allocate"),
        turn(world=b""),
        turn(action="shuffle"),
        replace(turn(), runs=flat_turn(1).runs),
    ],
    ids=["traced", "allocate", "flat", "shuffle", "one task"],
)
def test_other_turns_go_as_before(made: Turn) -> None:
    case = Searching()
    assert not case.open(made)
    assert case.sent()[0] == [made]


@pytest.mark.parametrize("need", [{0: 4000}, {0: 4000, 7: 9000}], ids=["cores", "a share, too"])
def test_who_fits_one_node_is_searched_for_alone(need: dict[int, int]) -> None:
    assert not Searching().open(turn(), need=need)


def test_workers_that_see_other_nodes_do_not_help() -> None:
    assert not Searching(apart=True).open(turn())


def test_nobody_helps_where_all_have_turns_of_their_own() -> None:
    case = Searching(shards=2)
    assert not case.open(turn(1), turn(2))


def test_beside_other_turns_of_its_worker_a_search_is_not_shared() -> None:
    case = Searching()
    case.open(turn(1), need={0: 1000})
    case.sent()
    case.dispatcher._home[2] = 0
    assert not case.open(turn(2))


def test_a_found_statement_is_committed_by_who_found_it() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    assert not case.found_nothing()
    assert list(case.searches.waiting()) == [1]
    case.searches.helped(ask.number, SOLVED)
    assert case.sent() == {1: [turn(prepared=ask.number)]}
    assert case.searches.results == {HelpResult.COMMITTED: 1}
    assert not list(case.searches.waiting())


def test_an_answer_may_come_before_its_time() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.searches.helped(ask.number, SOLVED)
    assert not case.found_nothing()
    assert case.sent() == {1: [turn(prepared=ask.number)]}


def test_who_finds_nothing_ends_it_as_one_search() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.found_nothing()
    bound = replace(VAIN, bound="GENERATOR", generator="MultiNodeGang")
    case.searches.helped(ask.number, bound)
    [(shard, end)] = case.failed
    assert (shard, end.code, end.part) == (0, OutcomeCode.INFEASIBLE, None)
    [word] = end.reasons
    assert "maxGeneratorSearchDuration.MultiNodeGang (120 s) after 4 simulated scenarios" in word
    assert case.searches.results == {HelpResult.NOTHING: 1}


@pytest.mark.parametrize("answer", [None, replace(SOLVED, position=LATER)])
def test_without_an_answer_of_the_same_position_it_is_done_again_alone(
    answer: SearchPart | None,
) -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.found_nothing()
    case.searches.helped(ask.number, answer)
    assert not case.searches.share(POLICY)
    assert case.sent() == {0: [turn()]}
    assert case.searches.results == {HelpResult.FAILED: 1}


def test_more_scenarios_than_one_search_may_try_find_nothing() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.found_nothing(replace(VAIN, simulated=9_999))
    case.searches.helped(ask.number, SOLVED)
    [(_, end)] = case.failed
    assert list(end.reasons) == [
        "ended after 10000 simulated scenarios, the most for one job; ask for fewer tasks at a time"
    ]


def test_a_turn_that_ends_otherwise_stops_the_help() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    final = outcome(part=None)
    assert case.searches.returned(0, [final]) == [final]
    assert case.searches.share(POLICY) == [StopHelp(1, ask.number)]
    assert case.searches.results == {HelpResult.UNNEEDED: 1}
    assert case.idle() == [2], "it is at it until it answers"
    case.searches.helped(ask.number, SOLVED)
    assert case.idle() == [1, 2]
    assert not case.sent()


def test_a_helper_that_gets_a_turn_of_its_own_is_told_to_stop_once() -> None:
    case = Searching(shards=2)
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.dispatcher._home[7] = 1
    assert case.open(flat_turn(7), need={0: 1000}) == [StopHelp(1, ask.number)]
    assert not case.searches.share(POLICY)


def test_jobs_without_a_home_go_to_who_does_not_help() -> None:
    case = Searching()
    case.open(turn())
    assert case.dispatcher.route(flat_turn(7), {0: 1000}) == 2


def test_a_helper_that_is_gone_has_no_answer() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.found_nothing()
    case.dispatcher.down(1)
    case.searches.lost(1, turns=[])
    assert case.sent() == {0: [turn()]}
    case.dispatcher.up(1, Epoch(2, "y"))
    case.searches.helped(ask.number, SOLVED)  # too late: nobody waits for it
    assert case.searches.results == Counter({HelpResult.FAILED: 1})
    assert not case.sent()


def test_a_turn_that_is_lost_with_its_worker_is_forgotten() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    sent, unsent = case.dispatcher.down(0)
    case.searches.lost(0, turns=[*sent, *unsent])
    case.searches.helped(ask.number, SOLVED)
    assert not case.sent()
    assert not case.failed


def test_the_home_worker_is_gone_when_it_is_done_again() -> None:
    case = Searching()
    [ask] = case.open(turn())
    assert isinstance(ask, AskHelp)
    case.sent()
    case.found_nothing()
    sent, unsent = case.dispatcher.down(0)
    case.searches.lost(0, turns=[*sent, *unsent])
    case.searches.helped(ask.number, None)
    [(shard, turns)] = case.sent().items()
    assert shard != 0
    assert turns == [turn()]
