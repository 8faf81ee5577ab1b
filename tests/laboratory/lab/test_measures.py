"""Every measure on a week worked out by hand (:func:`tests.laboratory.lab.weeks.by_hand`)."""

from __future__ import annotations

import numpy as np
import pytest

from laboratory.lab.comparison import Interval, VariantComparison, interval
from laboratory.lab.experiment import Variant
from laboratory.lab.figures import seconds
from laboratory.lab.guard import MeasureGuard
from laboratory.lab.measures import MEASURES, finish_time_ratio, measured
from laboratory.lab.steps.occupancy import Occupancy, waiting_jobs
from shared.codec.packed import replace
from tests.conftest import ROOT
from tests.laboratory.lab.weeks import by_hand

# Completion times: a 40, b 80, c 90; waits 0, 0, 70; bounded slowdowns 1, 2, 4.5.
# GPUs in use: 8 until 20, 4 until 40, 4 until 80, 4 until 100: 160 + 320 = 480 of 800 GPU-seconds.
# Nodes in use in part: both from 40 to 80 (2 of 4 GPUs): 80 of 200 node-seconds.
# Pods of the week: 4, 2, 2 and 4 GPUs, so that half of them fit where 2 are free. Fragments: none
# until 20, when no GPU is free; none until 40, when one node is empty and all pods fit; from 40 to
# 80 each node has 2 free GPUs, half of which are fragments: 2; none after that. So 2 x 40 = 80 of
# 800 GPU-seconds; free are 800 - 480 = 320.
# A gang of pods of 4 GPUs: 0 until 20, one pod until 40, none until 80, one until 100.
# A job waits (c) from 10 to 80: shares 1 for 10 s, 1/2 for 60 s.
# GPUs asked for: 8 in 0-10, 12 in 10-40, 8 in 40-80, 4 in 80-100 (a, b and c ask for 4 each):
# c lives 10-100: (360 + 320 + 80) / 90 / 8 = 1.0556, so 90 / (20 x 1.0556) = 4.263.
EXPECTED = {
    "makespan": 100.0,
    "jct.mean": 70.0,
    "jct.p50": 80.0,
    "bounded_slowdown.mean": 2.5,
    "wait.mean": 70 / 3,
    "wait.p50": 0.0,
    "wait.p90": 56.0,
    "wait.p99{queue=prod}": 0.0,
    "wait.p50{queue=dev}": 35.0,
    "wait.p90{size=2-7}": 56.0,
    "gar.p50": 0.5,
    "gar.waiting": 40 / 70,
    "sor": 0.6,
    "gfr": 0.4,
    "fgd.amount": 80 / 800,
    "fgd.ratio": 80 / 320,
    "largest_gang.mean": 4 * 40 / 100,
    "largest_gang.p10": 0.0,
    "jtted.mean": 2.0,
    "jain": (1 + 13 / 36) ** 2 / (2 * (1 + (13 / 36) ** 2)),
    "finish_time_fairness.worst": 90 / (20 * (760 / 90 / 8)),
    "goodput.lost": 80 / 480,
    "evictions": 2.0,
    "cross_shard": 1 / 6,
    "conflicts": 1.0,
    "retries": 3.0,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_measure_has_the_value_worked_out_by_hand(name: str) -> None:
    assert measured(by_hand())[name] == pytest.approx(EXPECTED[name])


def test_every_measure_is_worked_out_by_hand() -> None:
    names = {name.partition("{")[0].partition(".")[0] for name in EXPECTED}
    assert names == {measure.name for measure in MEASURES}


def test_the_page_has_the_definition_of_every_measure() -> None:
    page = (ROOT / "docs/laboratory.md").read_text()
    for measure in MEASURES:
        assert f"| `{measure.name}` | {measure.definition} |" in page


def test_series_are_means_over_equal_parts_of_the_time() -> None:
    middles, shares = Occupancy.of(by_hand()).share.series(5)
    assert middles.tolist() == [10, 30, 50, 70, 90]
    assert shares.tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5, 0.5])
    assert waiting_jobs(by_hand(), 5)[1].tolist() == pytest.approx([0.5, 1, 1, 1, 0])


@pytest.mark.parametrize(
    ("text", "after", "keeps"),
    [
        ("wait.p99 <= +5%", 105.0, True),
        ("wait.p99 <= +5%", 106.0, False),
        ("wait.p99 <= -5%", 96.0, False),
        ("wait.p99 >= -5%", 96.0, True),
        ("wait.p99 <= 100", 101.0, False),
        ("wait.p99 >= 50%", 0.4, False),
    ],
)
def test_a_guard_is_a_bound_or_a_change_from_the_baseline(
    text: str, after: float, keeps: bool
) -> None:
    measures = {"wait.p99": Interval(after, None, None)}
    difference = {"wait.p99": Interval(after - 100, None, None)}
    variant = VariantComparison(
        Variant("new", 1), measures, difference, worse=0, better=0, worst=[]
    )
    assert (MeasureGuard.parse(text).broken(variant) == "") == keeps


def test_an_interval_is_students_over_the_seeds() -> None:
    result = interval([1.0, 2.0, 3.0])
    assert result.low is not None
    assert result.high is not None
    assert (result.mean, result.high - result.mean) == pytest.approx((2.0, 4.303 / 3**0.5))
    assert result.mean - result.low == pytest.approx(result.high - result.mean)
    assert interval([1.0]).low is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-5.25, "-5.25 s"),
        (90.0, "1 min 30 s"),
        (-90.0, "-1 min 30 s"),
        (3599.7, "1 h 0 min"),
        (-7260.0, "-2 h 1 min"),
        (86399.0, "1 d 0 h"),
    ],
)
def test_times_are_rounded_and_keep_their_sign(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_job_without_a_duration_does_not_decide_the_fairness() -> None:
    played = by_hand()
    duration = np.array([0.0, 40.0, 20.0])
    short = replace(played, week=replace(played.week, duration=duration))
    assert finish_time_ratio(short)[0] == pytest.approx(40 / (10 * 11 / 8))
