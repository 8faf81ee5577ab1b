"""Usage over time from buckets, held against a sum over the single samples."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.usage import BUCKETS, LIMIT, added, usage_of, width
from shared.policy.cron import parse_cron
from shared.policy.kai_usage import USAGE_ONE, UsageWindow, WindowKind
from shared.records.usage import MEMORY_UNIT, UsageBucket, decode_usage, encode_usage

STEP = 60
CAPACITY = Amounts(cpu=100_000, memory=1_000 * MEMORY_UNIT, gpu=8_000)
START = 1_767_571_200
"""Midnight of a Monday."""


@dataclass
class UsageSample:
    at: int
    gpus: int


def buckets_of(
    samples: list[UsageSample], window: UsageWindow, step: int = STEP
) -> list[UsageBucket]:
    buckets: list[UsageBucket] = []
    for sample in samples:
        held = {"q": Amounts(gpu=1000 * sample.gpus)}
        buckets = added(buckets, sample.at, held, CAPACITY, window=window, resolution=step)
    return buckets


def naive(samples: list[UsageSample], window: UsageWindow, now: float) -> float:
    """KAI's sum, over the samples one by one."""
    since = window.since(now)
    counted = [sample for sample in samples if since <= sample.at <= now]
    decay = [
        0.5 ** ((now - sample.at) / window.half_life) if window.half_life else 1.0
        for sample in counted
    ]
    whole = sum(8 * weight for weight in decay)
    used = sum(s.gpus * weight for s, weight in zip(counted, decay, strict=True))
    return used / whole if whole else 0.0


def gpu_usage(buckets: list[UsageBucket], window: UsageWindow, now: float) -> float:
    return usage_of(buckets, window, now).get("q", NOTHING).gpu / USAGE_ONE


def regular(gpus: list[int], begin: int = START) -> list[UsageSample]:
    return [UsageSample(begin + STEP * number, n) for number, n in enumerate(gpus)]


@pytest.mark.parametrize(
    ("window", "gpus", "usage"),
    [
        (UsageWindow(size=3600.0), [8] * 60, 1.0),
        (UsageWindow(size=3600.0), [8] * 30 + [0] * 30, 0.5),
        (UsageWindow(size=600.0), [8] * 60 + [0] * 11, 0.0),
        (UsageWindow(size=600.0), [0] * 60 + [4] * 11, 0.5),
        (UsageWindow(size=3600.0, half_life=60.0), [8, 0], 1 / 3),
        (UsageWindow(size=3600.0, half_life=60.0), [0, 8], 2 / 3),
        (UsageWindow(kind=WindowKind.TUMBLING, size=600.0, start=START), [8] * 10 + [2], 0.25),
        (UsageWindow(kind=WindowKind.CRON, cron=parse_cron("*/10 * * * *")), [8] * 10 + [2], 0.25),
        (UsageWindow(kind=WindowKind.TUMBLING, size=600.0, start=2.0 * START), [8] * 10, 0.0),
    ],
)
def test_a_window_counts_the_samples_in_it(
    window: UsageWindow, gpus: list[int], usage: float
) -> None:
    samples = regular(gpus)
    now = samples[-1].at
    assert naive(samples, window, now) == pytest.approx(usage)
    assert gpu_usage(buckets_of(samples, window), window, now) == pytest.approx(usage, abs=1e-8)


def test_each_resource_is_a_fraction_of_its_capacity() -> None:
    window = UsageWindow(size=3600.0)
    held = {"q": Amounts(cpu=25_000, memory=500 * MEMORY_UNIT, gpu=1_000), "idle": NOTHING}
    capacity = CAPACITY._replace(memory=0)
    buckets = added([], START, held, capacity, window=window, resolution=STEP)
    usage = usage_of(buckets, window, START)
    assert usage == {"q": Amounts(cpu=USAGE_ONE // 4, memory=0, gpu=USAGE_ONE // 8)}


def test_a_step_without_a_sample_counts_neither_as_used_nor_as_idle() -> None:
    """As while nobody leads."""
    window = UsageWindow(size=7200.0)
    samples = [*regular([4] * 10), *regular([4] * 10, begin=START + 3600)]
    assert gpu_usage(buckets_of(samples, window), window, samples[-1].at) == pytest.approx(0.5)


WINDOWS = st.sampled_from(
    [
        UsageWindow(size=7200.0),
        UsageWindow(size=36_000.0),
        UsageWindow(size=36_000.0, half_life=3600.0),
        UsageWindow(size=604_800.0, half_life=1800.0),
        UsageWindow(kind=WindowKind.TUMBLING, size=5400.0, start=START + 300.0),
        UsageWindow(kind=WindowKind.CRON, cron=parse_cron("0 * * * *")),
    ]
)
RUNS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 200)), min_size=1, max_size=12)


@given(window=WINDOWS, runs=RUNS)
def test_buckets_differ_from_the_single_samples_by_one_bucket_at_most(
    window: UsageWindow, runs: list[tuple[int, int]]
) -> None:
    samples = regular([gpus for gpus, length in runs for _ in range(length)])
    now = samples[-1].at
    buckets = buckets_of(samples, window)
    span = width(window, STEP, now)
    decay = 1 - 0.5 ** (span / window.half_life) if window.half_life else 0.0
    counted = sum(window.since(now) <= sample.at for sample in samples)
    slack = 1e-6 + decay + (span / STEP) / max(1, counted)
    assert gpu_usage(buckets, window, now) == pytest.approx(naive(samples, window, now), abs=slack)
    assert gpu_usage(buckets, window, now) <= 1.0
    assert len(buckets) <= BUCKETS + 2


@given(window=WINDOWS, runs=RUNS)
def test_where_each_bucket_has_one_sample_the_sum_is_the_same(
    window: UsageWindow, runs: list[tuple[int, int]]
) -> None:
    samples = regular([gpus for gpus, length in runs for _ in range(min(length, 10))])
    now = samples[-1].at
    single = [
        UsageBucket(s.at, s.at, 1, (0, 0, 8_000), {"q": (0, 0, 1000 * s.gpus)}) for s in samples
    ]
    assert gpu_usage(single, window, now) == pytest.approx(naive(samples, window, now), abs=1e-8)


def test_the_number_of_buckets_is_bounded_after_any_windows() -> None:
    buckets: list[UsageBucket] = []
    held = {"q": Amounts(gpu=1000)}
    for number in range(LIMIT + 50):
        buckets = added(
            buckets,
            START + STEP * number,
            held,
            CAPACITY,
            window=UsageWindow(size=1e9 if number > LIMIT else 7200.0 * LIMIT, half_life=0.0)
            if number % 2
            else UsageWindow(size=1e9),
            resolution=STEP,
        )
        assert len(buckets) <= LIMIT
    assert sum(bucket.samples for bucket in buckets) == LIMIT + 50


def test_a_bucket_is_the_same_after_the_ledger() -> None:
    (bucket,) = buckets_of(regular([3, 5]), UsageWindow(size=36_000.0))
    assert decode_usage(encode_usage(bucket)) == bucket
