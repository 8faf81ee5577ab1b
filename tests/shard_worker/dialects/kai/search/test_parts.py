"""A search whose generators are divided among workers ends as it does in one of them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.evictions import SearchEnd, SearchRecord
from shard_worker.dialects.kai.rules.budget import BudgetBound
from shard_worker.dialects.kai.search.parts import described, joined, result_of
from shard_worker.dialects.kai.service.turn_session import TurnSession
from shard_worker.session_model.status import Status
from shared.codec.packed import replace
from shared.messages.search_part import SearchPart
from shared.policy.kai_model import SearchBudgets
from tests.examples import examples
from tests.shard_worker.dialects.kai.search.drawn_turns import (
    Drawn,
    Running,
    clusters,
    opened,
)
from tests.shard_worker.dialects.kai.turns import did

ACTIONS = ("consolidation", "reclaim", "preempt")
PARTS = ((0, 1), (1, 2))
SLOW = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class Turn:
    """One worker's turn over a drawn cluster."""

    def __init__(self, drawn: Drawn, action: str, scenarios: int, part: tuple[int, int] | None):
        self.ssn, job = opened(drawn, by_columns=True)
        self.ssn.kai = replace(self.ssn.kai, budgets=SearchBudgets(scenarios=scenarios))
        self.ssn.part = part
        self.records: list[SearchRecord] = []
        self.ssn.on_search = self.records.append
        all_of_it = did(self.ssn, job, action)
        assert isinstance(all_of_it, tuple)
        self.did = all_of_it[:2]
        """Operations, and where the job's tasks are; not what is told and counted."""
        self.word = self.ssn.searches.ended.get(job.job.jid)

    @property
    def result(self) -> SearchEnd | None:
        return self.records[0].ended if self.records else None


def budgets_of(ssn: TurnSession) -> SearchBudgets:
    return ssn.kai.budgets


@st.composite
def gangs_of_nodes(draw: st.DrawFn) -> tuple[Drawn, str]:
    """Nodes of two GPUs that are held, and a gang that takes at least five whole ones: victims of
    one node after the other are enough for four. Or every node is held by half, to consolidate."""
    action = draw(st.sampled_from(ACTIONS))
    moves = action == "consolidation"
    number = draw(st.integers(10, 11) if moves else st.integers(5, 8))
    most = number // 2 if moves else number
    job = st.builds(
        Running,
        queue=st.just("a"),
        priority=st.sampled_from([40, 40, 50]),
        spare=st.integers(0, 1),
        waits=st.just(0),
        status=st.just(Status.RUNNING),
        tree=st.just(False),
        share=st.just(""),
        created=st.sampled_from([1.0, 2.0, 3.0]),
        uid=st.text("ab", max_size=1),
        ran=st.just(None),
        state=st.just(""),
    )
    running = tuple(draw(st.lists(job, min_size=2 * number, max_size=2 * number)))
    wide = draw(st.sets(st.integers(1, 2 * number - 1), max_size=2))  # with a task elsewhere, too
    free = draw(st.sets(st.integers(0, 2 * number - 1), max_size=3))
    if moves:
        free = set(range(0, 2 * number, 2))
    held = [None if at in free else at // 2 if at in wide else at for at in range(2 * number)]
    drawn = Drawn(
        quotas=(0, 2 * number, 0),
        runtimes=(0.0, 0.0),
        most=-1,
        running=running,
        withheld=False,
        nodes=tuple((held[2 * at], held[2 * at + 1]) for at in range(number)),
        queue="a" if action == "preempt" else "b",
        priority=60 if moves else 90,
        tasks=draw(st.integers(5, most)),
        gpus=2,
        spare=draw(st.sampled_from([0, 0, 1])),
    )
    return drawn, action


@SLOW
@given(
    st.tuples(clusters(), st.sampled_from(ACTIONS)) | gangs_of_nodes(),
    st.sampled_from([0, 0, 1, 2, 3, 5, 7]),
)
def test_parts_end_as_the_whole(turn: tuple[Drawn, str], scenarios: int) -> None:
    drawn, action = turn
    whole = Turn(drawn, action, scenarios, None)
    turns = [Turn(drawn, action, scenarios, part) for part in PARTS]
    parts = [turn.ssn.searches.part for turn in turns]
    results = {turn.result for turn in turns} - {None, SearchEnd.PART}
    if parts[0] is None or parts[0].solved:  # nobody waits for the others
        assert turns[0].did == whole.did
        assert turns[0].word == whole.word
        assert turns[0].result == whole.result
        event(f"{action}: {whole.result}, by the first")
        return
    assert parts[1] is not None
    together = joined([parts[0], parts[1]], scenarios)
    if together.solved:
        assert turns[1].did == whole.did
        assert not results
    else:
        assert whole.ssn.searches.ended  # and tells why
        assert described(together, budgets_of(whole.ssn), action) == whole.word
        assert turns[0].did == whole.did
    assert together.simulated == whole.ssn.searches.simulated
    event(f"{action}: {whole.result}, {together.bound or 'unbounded'}, by the second")


TRIED = SearchPart(solved=False, simulated=3)
SOLVED = SearchPart(solved=True, simulated=2, position="7")
LATE = SearchPart(solved=False, simulated=3, bound="GENERATOR", generator="first")


@pytest.mark.parametrize(
    ("parts", "scenarios", "expected"),
    [
        ([TRIED, TRIED], 0, SearchPart(solved=False, simulated=6)),
        ([TRIED, SOLVED], 5, replace(SOLVED, simulated=5)),
        # One after the other they would have been at the bound before.
        ([TRIED, SOLVED], 4, SearchPart(solved=False, simulated=4, bound="SCENARIOS")),
        ([TRIED, TRIED, SOLVED], 5, SearchPart(solved=False, simulated=5, bound="SCENARIOS")),
        ([LATE, TRIED], 6, replace(LATE, simulated=6)),
        ([LATE, SOLVED, TRIED], 0, replace(SOLVED, simulated=5)),
        (
            [LATE, replace(LATE, generator="second")],
            0,
            replace(LATE, simulated=6, generator="second"),
        ),
    ],
)
def test_parts_are_joined_in_the_order_of_generators(
    parts: list[SearchPart], scenarios: int, expected: SearchPart
) -> None:
    assert joined(parts, scenarios) == expected


def test_which_budget_ended_it_is_described_as_of_one_search() -> None:
    budgets = SearchBudgets(scenarios=4)
    of_number = SearchPart(solved=False, simulated=4, bound=BudgetBound.SCENARIOS.name)
    assert described(of_number, budgets, "reclaim").startswith("ended after 4 simulated scenarios")
    of_time = SearchPart(solved=False, simulated=2, bound="GENERATOR", generator="NodeLocalGreedy")
    assert "maxGeneratorSearchDuration.NodeLocalGreedy (30 s)" in described(
        of_time, budgets, "reclaim"
    )
    assert described(TRIED, budgets, "reclaim") == "no scenario succeeds"


@pytest.mark.parametrize(
    ("ended", "part", "result"),
    [
        (SearchEnd.EXHAUSTED, None, SearchEnd.EXHAUSTED),
        (SearchEnd.SOLVED, (0, 1), SearchEnd.SOLVED),
        (SearchEnd.IMPOSSIBLE, (0, 1), SearchEnd.IMPOSSIBLE),
        (SearchEnd.BUDGET, (0, 1), SearchEnd.PART),
        (SearchEnd.BUDGET, (1, 2), SearchEnd.BUDGET),
        (SearchEnd.SOLVED, (1, 2), SearchEnd.PART),
        (SearchEnd.IMPOSSIBLE, (1, 2), SearchEnd.PART),
    ],
)
def test_a_search_in_parts_is_counted_once(
    ended: SearchEnd, part: tuple[int, int] | None, result: SearchEnd
) -> None:
    assert result_of(ended, part) is result
