"""Each process of a run, by name, is ended or stopped alone, and some in pairs: pods are placed
again, in time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.laboratory.chaos.pairs import SAMPLE, Pair, title
from tests.laboratory.chaos.process_tree import (
    AGENT,
    DASHBOARD,
    END,
    ENVIRONMENTS,
    KILL,
    RAYLET,
    STOP,
    STORE,
    STRIKES_OF_A_TREE,
    WORKER,
    ProcessTree,
    Strike,
    running_tree,
)

pytestmark = [
    pytest.mark.all,  # `test_chaos_kill` kills one of each role
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SHORT = [(RAYLET, END)]
STRIKES: list[Strike] = [
    *SHORT,
    (AGENT, KILL),
    *((name, KILL) for name in (RAYLET, DASHBOARD, "standby", "cluster", STORE)),
    *((name, END) for name in (ENVIRONMENTS, STORE, WORKER, "ray", "ledger")),
    *((name, END) for name in ("cluster", "coordinator", "standby")),
    *((name, KILL) for name in ("ray", "ledger", "coordinator", WORKER)),
    *((ENVIRONMENTS, KILL), (AGENT, END)),
    *((name, STOP) for name in (RAYLET, STORE, WORKER, "ledger", "coordinator")),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tree() -> AsyncIterator[ProcessTree]:
    """A tree for a few strikes."""
    async with running_tree() as tree:
        yield tree


@pytest.mark.parametrize("tree", [0], indirect=True)
async def test_a_death_before_the_standby_is_up_is_repaired_like_any_other(
    tree: ProcessTree,
) -> None:
    [killed] = tree.killed
    assert (await tree.until_whole())["cluster"] != killed
    await tree.until_placed()


@pytest.mark.parametrize(
    ("tree", "strike"),
    [
        pytest.param(
            index // STRIKES_OF_A_TREE,
            (name, number),
            marks=[] if (name, number) in SHORT else [pytest.mark.thorough],
            id=f"{name.replace(' ', '-')}-{number.name}",
        )
        for index, (name, number) in enumerate(STRIKES)
    ],
    indirect=["tree"],
    scope="module",
)
async def test_pods_are_placed_again_after(tree: ProcessTree, strike: Strike) -> None:
    await tree.strike(strike)


@pytest.mark.thorough
@pytest.mark.parametrize("tree", ["pairs"], indirect=True)
@pytest.mark.parametrize("pair", SAMPLE, ids=title)
async def test_pods_are_placed_again_after_two_at_the_same_moment(
    tree: ProcessTree, pair: Pair
) -> None:
    await tree.strike(*pair)
