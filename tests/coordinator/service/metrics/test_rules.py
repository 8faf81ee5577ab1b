"""Names and labels keep the rules, the reference page is true, counts arrive as they were made."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import Metric as Family

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.changes import Changes
from coordinator.order.order import Order
from coordinator.service.metrics.exporter import (
    CoordinatorMetrics,
    MetricsPage,
)
from coordinator.service.metrics.probes import ATTEMPT, Probes
from coordinator.service.metrics.table import PREFIX, SECTIONS, TABLE, reference
from coordinator.service.metrics.text import SAMPLES
from shard_worker.dialects.open_session import open_session
from shard_worker.worker.figures import CAUSES, RESULTS, WorkerFigures
from shard_worker.worker.transport import REPLY, PlaceReply
from shared.byte_cache import CACHES, MIB
from shared.manifests.kubernetes.pods import template
from shared.messages.messages import ACCEPTED, Epoch, Outcome, OutcomeCode, Verdict
from shared.model.model import Node, Queue
from shared.policy.volcano import DEFAULT_POLICY
from shared.slices import at_once
from shared.telemetry import histogram
from tests.conftest import ROOT
from tests.coordinator.objects.steps import longest_step
from tests.coordinator.service.metrics.scrape import read, total

UNITS = ("seconds", "bytes", "ratio")
NOT_BASE = re.compile(r"_(ms|us|milliseconds|microseconds|minutes|percent|mib|gib)(_|$)")
LABELS = {
    "action",
    "plugin",
    "point",
    "attempts",
    "cache",
    "cause",
    "code",
    "kind",
    "level",
    "python",
    "queue",
    "reason",
    "resource",
    "result",
    "shard",
    "state",
    "status",
    "version",
}
"""All that a series may be told by: each has few values, or as many as there are queues, shards,
caches or resources of nodes."""


@pytest.fixture
def core() -> Coordinator:
    coordinator = Coordinator(Order(open_session(DEFAULT_POLICY)), Dispatcher(2))
    coordinator.admitted(
        Changes(
            nodes=[Node(row=0, name="n", allocatable=((0, 4000), (1, 8 << 30), (2, 110)))],
            queues=[Queue(qid=0, name="default"), Queue(qid=1, name='odd "name"\n')],
        )
    )
    return coordinator


@pytest.fixture
def registry(core: Coordinator) -> CoordinatorMetrics:
    return CoordinatorMetrics(core, Probes(), lambda: ["cpu", "memory", "pods"])


def families(registry: CoordinatorMetrics) -> Iterator[Family]:
    yield from registry.collect()


def test_every_metric_of_the_registry_keeps_the_rules(registry: CoordinatorMetrics) -> None:
    observed = set()
    for family in families(registry):
        name = family.name + ("_total" if family.type == "counter" else "")
        observed.add(name)
        metric = TABLE[name.removeprefix(PREFIX)]
        assert name.startswith(PREFIX)
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert not NOT_BASE.search(name), name
        assert family.type == metric.kind
        assert family.documentation
        assert metric.kind == "counter" or not name.endswith(("_total", "_count", "_sum"))
        if name.endswith("duration") or "duration" in name:
            assert name.endswith("_seconds")
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), name
    assert observed == {PREFIX + name for name in TABLE}


def test_labels_are_of_the_closed_list() -> None:
    for name, metric in TABLE.items():
        assert set(metric.labels) <= LABELS, name
        assert metric.stability in ("alpha", "beta", "stable")
        assert (metric.kind == "histogram") == bool(metric.bounds), name
        assert list(metric.bounds) == sorted(set(metric.bounds))
        assert len(metric.bounds) <= 20, "a series for each bucket"
    assert len(TABLE) == sum(map(len, SECTIONS.values())), "a name twice"


def test_a_name_or_label_that_is_not_in_the_table_cannot_be_shown() -> None:
    with pytest.raises(KeyError):
        MetricsPage().put("unheard_of", 1)
    with pytest.raises(AssertionError):
        MetricsPage().put("shard_up", 1)


def test_every_cache_shows_its_bound_and_what_it_answered(registry: CoordinatorMetrics) -> None:
    before = CACHES["pod-templates"].figures()
    for _ in range(3):
        template({"containers": [{"name": "of-this-test"}]})
    shown = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(registry)
        for sample in family.samples
        if sample.labels.get("cache") == "pod-templates"
    }
    assert shown["quadrant_cache_lookups_total", "pod-templates", "hit"] == before.hits + 2
    assert shown["quadrant_cache_lookups_total", "pod-templates", "miss"] == before.misses + 1
    held = shown["quadrant_cache_bytes", "pod-templates", "held"]
    assert before.bytes < held < shown["quadrant_cache_bytes", "pod-templates", "bound"]
    assert sum(cache.bound for cache in CACHES.values()) < 100 * MIB


def test_the_reference_page_is_what_the_registry_shows() -> None:
    page = ROOT / "docs" / "metrics.md"
    assert page.read_text() == reference(), (
        "run: python -m coordinator.service.metrics.table > docs/metrics.md"
    )


def test_series_go_with_their_queue_and_shard(
    core: Coordinator, registry: CoordinatorMetrics
) -> None:
    core.worker_up(0, Epoch(7, "x"))
    core.worker_up(1, Epoch(8, "y"))
    before = read(at_once(registry.text()).decode())
    assert total(before, "shard_epoch", shard="1") == 8
    assert total(before, "queue_weight", queue='odd "name"\n') == 1
    del core.order.lines.queues[1], core.order.accounts.cluster.queues[1]
    del core.dispatcher.shards[1]
    after = read(at_once(registry.text()).decode())
    gone = before.keys() - after.keys()
    assert gone
    for _, labels in gone:
        assert dict(labels).get("queue") == 'odd "name"\n' or dict(labels).get("shard") == "1"
    for _, labels in after:
        assert dict(labels).get("shard") != "1"


# --- counts -----------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(0, 100) | st.sampled_from([0.1, 0.2, 0.4, 0.8]), st.integers(1, 9))
    )
)
def test_a_histogram_is_shown_as_the_metrics_library_would(values: list[tuple[float, int]]) -> None:
    bounds = histogram.exponential(0.1, 2, 4)
    ours, theirs = histogram.Histogram(bounds), CollectorRegistry()
    library = Histogram("quadrant_bind_duration_seconds", "x", buckets=bounds, registry=theirs)
    for value, times in values:
        ours.observe(value, times)
        for _ in range(times):
            library.observe(value)
    page = MetricsPage()
    page.put_histogram("bind_duration_seconds", ours)
    mine = {
        (s.name, s.labels.get("le")): s.value
        for s in page.families["bind_duration_seconds"].samples
    }
    expected = {
        (s.name, s.labels.get("le")): s.value
        for family in theirs.collect()
        for s in family.samples
        if not s.name.endswith(
            "_created"
        )  # shared.telemetry.logging, where it is imported, turns it off
    }
    assert mine == pytest.approx(expected)


def test_figures_travel_and_add_up() -> None:
    figures = WorkerFigures()
    for verdict in Verdict:
        figures.judged(verdict, wasted=0 if verdict in ACCEPTED else verdict.value)
    figures.waste("rollback", 3)
    figures.operations.observe(5, 2)
    figures.commit_seconds.observe(0.25, 7)
    figures.session_seconds.observe(1e9)
    figures.replays = 2
    reply = REPLY.decode(REPLY.encode(PlaceReply([], "1-0", 0.5, figures)))
    assert reply.figures is not None
    assert reply.figures == figures
    assert set(figures.statements) == set(RESULTS)
    assert set(figures.wasted) == set(CAUSES)
    sum_of_two = WorkerFigures()
    for _ in range(2):
        sum_of_two.add(reply.figures)
    assert sum_of_two.statements == {name: 2 * n for name, n in figures.statements.items()}
    assert sum_of_two.operations.count == 4
    assert sum_of_two.commit_seconds.sum == 3.5
    assert sum_of_two.replays == 4
    assert REPLY.decode(REPLY.encode(PlaceReply([], "1-0"))).figures is None


def test_every_outcome_has_its_word() -> None:
    assert set(ATTEMPT) == set(OutcomeCode)
    probes = Probes()
    outcomes = [Outcome(jid=i, code=c, placements=[], reasons={}) for i, c in enumerate(ATTEMPT)]
    probes.answered(3, PlaceReply(outcomes, "0"), started=0.0, seconds=1.0)
    counted = {result: seconds.count for (_, result), seconds in probes.attempts.items()}
    assert counted["error"] == 2
    assert sum(counted.values()) == len(OutcomeCode)


def test_evictions_are_counted_by_action(core: Coordinator, registry: CoordinatorMetrics) -> None:
    core.tally.evicted.update({"preempt (priority, gang)": 3, "preempt (drf)": 2, "shuffle": 1})
    series = read(at_once(registry.text()).decode())
    assert total(series, "evictions_total", action="preempt") == 5
    assert total(series, "evictions_total", action="shuffle") == 1
    assert total(series, "evictions_total") == 6


# --- in steps -------------------------------------------------------------------------------------


def with_queues(count: int) -> CoordinatorMetrics:
    core = Coordinator(Order(open_session(DEFAULT_POLICY)), Dispatcher(1))
    node_of = Node(row=0, name="n", allocatable=((0, 4000), (1, 8 << 30), (2, 110)))
    queues = [Queue(qid=qid, name=f"q{qid}") for qid in range(count)]
    core.admitted(Changes(nodes=[node_of], queues=queues))
    return CoordinatorMetrics(core, Probes(), lambda: ["cpu", "memory", "pods"])


def test_the_text_is_the_one_that_the_library_writes() -> None:
    """With metrics of more samples than one step takes, of fewer and of none."""
    metrics, registry = with_queues(SAMPLES), CollectorRegistry()
    registry.register(metrics)
    report, expected = at_once(metrics.text()), generate_latest(registry)
    assert report.count(b"\n") > 5 * SAMPLES
    assert _without_times(report) == _without_times(expected)


def test_the_text_of_a_thousand_queues_is_made_in_short_steps() -> None:
    """It took 60 ms of the loop in one go; the longest steps take 2 to 4."""
    metrics = with_queues(1000)
    gc.collect()
    gc.disable()
    try:
        longest = min(longest_step(metrics.text()) for _ in range(3))
    finally:
        gc.enable()
    assert longest < 0.02


def _without_times(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if b"_created" not in line and b"age" not in line]
