"""The arithmetic of pairs, with a measurement that is made up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench_compare.comparison import (
    Comparison,
    Figures,
    NotMeasured,
    Pair,
    Side,
    above,
    comparisons,
    figures_of,
    measured_pairs,
    report,
)


def costs(**workloads: float) -> Figures:
    return {name: {"ledger": us, "idle": 0.0} for name, us in workloads.items()}


def pair(base: float, tree: float) -> Pair:
    return Pair(costs(pods=base)["pods"], costs(pods=tree)["pods"])


def test_sides_take_turns_in_going_first() -> None:
    sides: list[Side] = []

    def measure(side: Side, size: str) -> Figures:
        sides.append(side)
        return {"pods": {"ledger": 1.0}}

    numbers = [number for number, _ in measured_pairs(measure, size="basic", count=3)]
    base, tree = Side.BASE, Side.TREE
    assert numbers == [1, 2, 3]
    assert sides == [base, tree, tree, base, base, tree]


def test_the_median_of_ratios_counts_not_the_ratio_of_medians() -> None:
    """The machine got slower by the pair: within each the tree costs a tenth more."""
    pairs = [
        {Side.BASE: costs(pods=us), Side.TREE: costs(pods=1.1 * us)} for us in (100.0, 150.0, 400.0)
    ]
    (result,) = comparisons("basic", pairs)
    assert result.median == pytest.approx(1.1)
    assert [result.typical(side) for side in Side] == pytest.approx([150.0, 165.0])


def test_one_bad_pair_moves_the_range_and_not_the_median() -> None:
    ratios = [1.0, 1.01, 0.99, 1.02, 3.0]
    comparison = Comparison("basic", "pods", tuple(pair(100.0, 100.0 * ratio) for ratio in ratios))
    assert (comparison.lowest, comparison.median, comparison.highest) == pytest.approx(
        (0.99, 1.01, 3.0)
    )
    assert above([comparison], 1.03) == []
    assert above([comparison], 1.009) == [comparison]


def test_workloads_that_one_revision_does_not_have_are_left_out() -> None:
    pairs = [{Side.BASE: costs(old=1.0, both=2.0), Side.TREE: costs(both=2.0, new=5.0)}]
    assert [one.workload for one in comparisons("basic", pairs)] == ["both"]
    with pytest.raises(NotMeasured, match="no workload in common"):
        comparisons("basic", [{Side.BASE: costs(old=1.0), Side.TREE: costs(new=1.0)}])


def test_processor_time_is_that_of_all_processes() -> None:
    parts = {"coordinator": 50.0, "ledger": 12.5, "load": 30.0}
    figures = figures_of({"workloads": {"pods": {"cpu_us_per_task": parts}}})
    one = Comparison("basic", "pods", (Pair(figures["pods"], {**figures["pods"], "new": 92.5}),))
    assert (one.typical(Side.BASE), one.median) == (92.5, 2.0)
    wrong: list[Any] = [{}, {"workloads": {"pods": {}}}, {"workloads": {"pods": None}}, []]
    for result in wrong:
        with pytest.raises(NotMeasured):
            figures_of(result)


def test_the_report_has_every_figure_and_the_verdict() -> None:
    comparison = Comparison("wide", "one Job", (pair(100.0, 104.0), pair(50.0, 51.0)))
    report_lines = report([comparison], base="main", policy="p.yaml", bound=1.02)
    (one,) = report_lines["comparisons"]
    assert (report_lines["passed"], report_lines["base"], report_lines["bound"]) == (
        False,
        "main",
        1.02,
    )
    assert (one["ratios"], one["median"]) == ([1.04, 1.02], 1.03)
    names = {"size", "workload", "base_us_per_task", "tree_us_per_task", "ratios"}
    assert set(one) == names | {"median", "lowest", "highest", "by_process"}
    assert one["by_process"] == {"ledger": {"base": 75.0, "tree": 77.5}}
