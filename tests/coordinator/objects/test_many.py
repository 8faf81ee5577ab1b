"""Many objects: what a walk through all of them costs, counted in steps and not in seconds."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import orjson
import pytest

from coordinator.intake.documents import index
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.index import Keys, KindIndex, Record
from coordinator.intake.documents.kinds import POD
from coordinator.objects.entries import JobPodEntry
from shared.slices import at_once
from tests.builders.objects import job, node, pod, task
from tests.coordinator.objects.steps import longest_step
from tests.coordinator.objects.world import KIND, World, infeasible

PODS = 100_000
FEWER = 20_000
PAGE = 200
"""Objects of a page: so many of these small ones are less than the bytes that end one."""


class CountedKeys(Keys[str]):
    """Counts what is put in order, and what is passed on the way."""

    work = 0

    def between(self, first: str, last: str | None = None):  # type: ignore[no-untyped-def]
        for key in super().between(first, last):
            CountedKeys.work += 1
            yield key

    def _settle(self) -> None:
        fresh = len(self._fresh)
        if fresh:
            CountedKeys.work += fresh if fresh < 32 else len(self._sorted) + fresh
        super()._settle()


@pytest.fixture(scope="module")
def many() -> World:
    """For those that only read: a test that writes makes a world of its own."""
    return world_of(PODS)


def world_of(pods: int) -> World:
    world = World()
    world.objects._indexes["Pod"] = KindIndex(paths=CountedKeys())
    documents = []
    for i in range(pods):
        item = pod(f"p{i}")
        item["metadata"]["labels"] = {"tenth": str(i % 10), "app": "many"}
        documents.append(Document(Key("Pod", "ns", f"p{i}"), orjson.dumps(item), world.now))
    world.objects.publish(documents, [])
    return world


def test_a_walk_by_pages_with_a_selector_passes_each_object_about_once(many: World) -> None:
    CountedKeys.work = 0
    result, after, pages = 0, "", 0
    while True:
        page = many.objects.list(KIND["Pod"], namespace="ns", after=after, limit=PAGE)
        result += sum(entry.labels.get("tenth") == "3" for entry in page.items)
        pages += 1
        if not (after := page.next):
            break
        assert page.remaining == PODS - pages * PAGE
    assert (result, pages) == (PODS // 10, PODS // PAGE)
    assert CountedKeys.work <= 2 * PODS + 2 * pages


def test_a_walk_while_others_write_does_not_sort_everything_for_each_page() -> None:
    many = world_of(FEWER)
    CountedKeys.work = 0
    after, pages = "", 0
    while True:
        page = many.objects.list(KIND["Pod"], namespace=None, after=after, limit=PAGE)
        assert sum(1 for _ in page.items)
        many.put(pod(f"new-{pages}"))
        pages += 1
        if not (after := page.next):
            break
    assert pages == FEWER // PAGE  # what comes meanwhile stands before all others
    assert CountedKeys.work <= 2 * FEWER + 5 * pages


def test_one_object_of_many_is_found_without_looking_at_others(many: World) -> None:
    CountedKeys.work = 0
    assert many.get("Pod", "p77777")["metadata"]["labels"]["tenth"] == "7"
    assert CountedKeys.work == 0


def test_changes_are_read_without_visiting_other_objects() -> None:
    many = world_of(FEWER)
    many.put(node("n0"), *(pod(f"real-{i}") for i in range(10)))
    since = many.objects.version
    turns = many.answer(infeasible)
    assert len(turns) == 8  # so many does the node hold
    CountedKeys.work = 0
    assert len(at_once(many.objects.changes(since, KIND["Pod"]))) == 8
    assert CountedKeys.work == 0


def test_a_watch_from_long_ago_reads_its_changes_in_short_steps(many: World) -> None:
    """100,000 changes took a quarter of a second in one go. In processor time and without
    collections of garbage, which are counted apart; the longest steps of three readings take 2 to
    7 ms."""
    since = many.objects.version - PODS
    gc.collect()
    gc.disable()
    try:
        longest = min(longest_step(many.objects.changes(since, KIND["Pod"])) for _ in range(3))
    finally:
        gc.enable()
    assert longest < 0.02


def test_a_large_job_is_listed_by_pages_without_documents() -> None:
    world = World()
    world.put(job("big", tasks=[task("w", replicas=5000), task("x", replicas=5000)]), pod("a"))
    names = world.names("Pod", "ns", limit=499)
    assert len(names) == 10_001 == len(set(names))
    assert (names[0], names[1], names[-1]) == ("a", "big-w-0", "big-x-4999")
    page = world.objects.list(KIND["Pod"], namespace="ns", limit=1)
    assert page.remaining == 10_000


def test_events_of_many_gangs_are_walked_by_pages() -> None:
    world = World()
    gangs = [job(f"big{i}", tasks=[task("w", replicas=300)]) for i in range(20)]
    world.put(node("n0"), *gangs)
    world.objects.report_waiting()
    names = world.names("Event", "ns", limit=3)
    assert len(names) == 20 == len(set(names))  # one of each gang


def test_a_record_of_a_document_is_small() -> None:
    document = Document(Key("Pod", "ns", "p"), b"{}", 0.0)
    kind_index = KindIndex()
    tracemalloc.start()
    try:
        for i in range(10_000):
            kind_index.put(f"ns/p{i}", Record(Document(Key("Pod", "ns", f"p{i}"), b"", 0.0), i))
        size = tracemalloc.get_traced_memory()[0] / 10_000
    finally:
        tracemalloc.stop()
    assert document.key.kind == POD.kind
    assert size < 1000


def test_keys_stay_in_order_through_coming_and_going(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_FEW", 4)
    keys: Keys[int] = Keys()
    model: set[int] = set()
    step = 0
    for i in range(4000):
        step = (step * 1103515245 + 12345) % (1 << 31)
        key = step % 700
        if key in model:
            model.discard(key)
            keys.discard(key)
        else:
            model.add(key)
            keys.add(key)
        if i % 37 == 0:
            assert [*keys.between(100, 600)] == sorted(k for k in model if 100 <= k < 600)
    assert len(keys) == len(model)
    assert [*keys.between(0)] == sorted(model)


def test_pods_of_a_job_that_is_gone_are_rendered_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered = 0
    show = JobPodEntry.object

    def counted(entry: JobPodEntry) -> dict[str, Any]:
        nonlocal rendered
        rendered += 1
        return show(entry)

    world = World()
    world.put(job("j", tasks=[task("w", replicas=1000)]))
    jid, since = world.jid("Job", "j"), world.objects.version
    world.remove("Job", "j")
    world.purge(jid)
    monkeypatch.setattr(JobPodEntry, "object", counted)
    changes = at_once(world.objects.changes(since, KIND["Pod"]))
    assert (len(changes), rendered) == (1000, 0)
    last = changes[7].last
    assert last is not None and last()["metadata"]["name"] == "j-w-7"
    assert rendered == 1


def test_keys_that_come_and_go_between_reads_leave_nothing() -> None:
    """A service whose clients only create and delete has no read for hours."""
    keys: Keys[str] = Keys()
    for name in ("early", "late"):
        keys.add(name)
    assert list(keys.between("")) == ["early", "late"]
    tracemalloc.start()
    try:
        for number in range(5000):
            keys.add(f"ns/job-{number}")
            keys.discard(f"ns/job-{number}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000
    keys.discard("early")
    keys.add("early")
    keys.discard("late")
    assert len(keys) == 1
    assert list(keys.between("")) == ["early"]
