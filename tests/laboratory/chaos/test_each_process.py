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
    WORKER,
    ProcessTree,
    Strike,
    running_tree,
)

pytestmark = [
    pytest.mark.all,  # `real_processes/test_up.py` kills one of each role
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SHORT: Strike = (RAYLET, END)
STRIKES: tuple[tuple[Strike, ...], ...] = (
    (SHORT, ("standby", KILL), (AGENT, KILL), ("cluster", KILL), (RAYLET, KILL), (WORKER, END)),
    # A dashboard is struck first: the next head is whole without it.
    (
        *((DASHBOARD, KILL), ("ledger", END), (STORE, KILL)),
        *(("cluster", END), (ENVIRONMENTS, END), ("coordinator", END)),
    ),
    (
        *((STORE, END), ("standby", END), ("ray", END)),
        *(("ledger", KILL), ("ray", KILL), ("coordinator", KILL)),
    ),
    (
        *((ENVIRONMENTS, KILL), (WORKER, KILL), (AGENT, END)),
        *((WORKER, STOP), (RAYLET, STOP), ("ledger", STOP)),
    ),
    ((STORE, STOP), ("coordinator", STOP)),
)
"""Strikes of each tree, which starts longer than most recoveries take. The supervisor gives up a
process that dies five times in a minute: three of a tree end the Ray head."""


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
            tree,
            (name, number),
            marks=[] if (name, number) == SHORT else [pytest.mark.thorough],
            id=f"{name.replace(' ', '-')}-{number.name}",
        )
        for tree, strikes in enumerate(STRIKES)
        for name, number in strikes
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
