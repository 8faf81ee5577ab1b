"""The checker's side of the borders: whose node it is, and how it came to be that."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.checker.state.ownership import RowOwnership
from tests.laboratory.checker.story import Story


def put(
    borders: RowOwnership,
    revision: int,
    shards: dict[int, list[int]],
    *moving: tuple[int, int, list[int]],
    mode: str = "hard",
) -> list[str]:
    named = {str(shard): rows for shard, rows in shards.items()}
    return borders.put({"revision": revision, "shards": named, "moving": moving, "mode": mode})


def at(row: int, level: int = 1) -> list[list[int]]:
    return [[0, row, 0, level]]


def test_a_node_changes_hands_by_moving() -> None:
    borders = RowOwnership()
    assert put(borders, 1, {0: [0, 1], 1: [2]}) == []
    assert put(borders, 2, {0: [0], 1: [2]}, (0, 1, [1])) == []
    assert borders.foreign("0", at(1)) == []  # planned before
    assert borders.foreign("1", at(1)) == [1]
    assert put(borders, 3, {0: [0], 1: [1, 2]}) == []
    assert borders.foreign("0", at(1)) == [1]
    assert borders.foreign("1", at(1)) == []
    assert borders.foreign("1", at(7)) == [7]  # nobody's


def test_a_node_that_jumps_is_told() -> None:
    borders = RowOwnership()
    put(borders, 1, {0: [0, 1], 1: [2]})
    (jumped,) = put(borders, 2, {0: [0], 1: [1, 2]})
    assert "row 1" in jumped
    put(borders, 3, {0: [0], 1: [2]}, (1, 0, [1]))
    assert len(put(borders, 4, {0: [0], 1: [1, 2]})) == 1  # it was on its way to the other


def test_nodes_of_removed_shards_do_not_move() -> None:
    borders = RowOwnership()
    put(borders, 1, {0: [0], 1: [1], 2: [2]}, (2, 0, [3]), (0, 2, [4]))
    assert put(borders, 2, {0: [0, 2, 3], 1: [1, 4]}) == []


@pytest.mark.parametrize("moving", [(), ((0, 1, [0]),)])
def test_a_node_is_not_two_shards_own(moving: tuple[tuple[int, int, list[int]], ...]) -> None:
    borders = RowOwnership()
    shards = {0: [0, 1], 1: [2]} if moving else {0: [0, 1], 1: [1, 2]}
    (double,) = put(borders, 1, shards, *moving)
    assert "somebody else's too" in double


def test_an_older_partition_does_not_come_after_a_newer_one() -> None:
    borders = RowOwnership()
    put(borders, 5, {0: [0]})
    assert put(borders, 5, {0: [0]}) != []


def test_foreign_levels_depend_on_the_partition_mode() -> None:
    borders = RowOwnership()
    observed = {}
    for revision, mode in enumerate(("none", "soft", "hard")):
        put(borders, revision, {0: [0], 1: [1]}, mode=mode)
        observed[mode] = [level for level in (1, 2, 3, 4) if borders.foreign("0", at(1, level))]
    assert observed == {"none": [], "soft": [1, 3], "hard": [1, 2, 3, 4]}


def test_a_history_in_which_a_taker_was_too_early_is_found_wrong(tmp_path: Path) -> None:
    for early in (False, True):
        story = Story()
        story.job(1, 1)
        rows = {"0": [0, 1], "1": [3]}
        story.ledger("partition", revision=2, shards=rows, moving=[[1, 0, [2]]], mode="hard")
        if not early:
            rows = {"0": [0, 1, 2], "1": [3]}
            story.ledger("partition", revision=3, shards=rows, moving=[], mode="hard")
        story.commit(1, {0: 2})
        report = story.check(tmp_path)
        assert [violation.promise for violation in report.violations] == [4] * early
