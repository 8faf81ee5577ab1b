"""A watcher that follows the changes comes to the same picture as one that lists anew."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coordinator.intake.documents.document import Key
from coordinator.objects import changes
from coordinator.objects.watchers import WatchExpired
from shared.messages.messages import HOLDING, TaskState
from shared.slices import Steps, at_once
from tests.builders.objects import job, node, pod, pod_group, queue, task
from tests.coordinator.objects.world import KIND, World, infeasible, nominated, placed
from tests.examples import first_of

FOLLOWED = ("Pod", "PodGroup", "Job", "Node", "Queue", "Namespace")


class ObjectFollower:
    """Client of the HTTP watch: a list, then changes."""

    def __init__(self, world: World, kind: str) -> None:
        self.world, self.kind = world, KIND[kind]
        self.since = world.objects.version
        page = world.objects.list(self.kind, namespace=None, limit=None)
        self.known = {entry.key: entry.object() for entry in page.items}

    def follow(self, between: Callable[[], None] = lambda: None) -> None:
        """``between``: what happens between two steps of the reading."""
        objects = self.world.objects
        before, upto = self.since, objects.version

        def reading() -> Steps[Sequence[changes.ObjectChange]]:
            steps = objects.changes(self.since, self.kind)
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    result: Sequence[changes.ObjectChange] = done.value
                    return result
                between()
                yield

        for change in at_once(reading()):
            assert before <= change.version <= upto
            before = change.version
            if change.type == "DELETED":
                self.known.pop(change.key, None)
                continue
            value = objects.get(self.kind, change.key.namespace, change.key.name)
            if value is None and upto < objects.version:
                continue  # it went meanwhile: the next round has it
            assert value is not None, change
            assert change.type == "ADDED" or change.key in self.known, change
            assert int(value["metadata"]["resourceVersion"]) <= objects.version
            self.known[change.key] = value
        self.since = upto

    def check(self) -> None:
        page = self.world.objects.list(self.kind, namespace=None, limit=None)
        fresh = {entry.key: entry.object() for entry in page.items}
        assert self.known.keys() == fresh.keys()
        for key, value in fresh.items():
            assert picture(self.known[key]) == picture(value), key


def picture(value: dict[str, Any]) -> Any:
    """Fields that must never be stale: identity, node, progress."""
    meta, status = value["metadata"], value.get("status") or {}
    counts = {name: status.get(name) for name in ("phase", "running", "succeeded", "failed")}
    return (
        meta["uid"],
        meta.get("generation", None),
        meta.get("deletionTimestamp"),
        meta.get("labels"),
        (value.get("spec") or {}).get("nodeName"),
        counts if value["kind"] != "Queue" else None,
    )


class Life:
    """Random things that happen to a small world."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(shards=2)
        self.world.put(node("n0"), node("n1"), queue("q"))
        self.made = 0

    def step(self) -> None:
        world, choose = self.world, self.random.choice
        world.now += 1
        match self.random.randrange(9):
            case 0:
                self.made += 1
                item = pod(f"p{self.made}")
                item["metadata"]["namespace"] = choose(("ns", "other"))
                world.put(item)
            case 1:
                self.made += 1
                world.put(job(f"j{self.made}", tasks=[task("w", replicas=3)], queue="q"))
            case 2:
                self.made += 1
                name = f"g{self.made}"
                members = [pod(f"{name}-{i}", group=name) for i in range(2)]
                items = [pod_group(name, minMember=2), *members]
                self.random.shuffle(items)
                for item in items:
                    world.put(item)
            case 3:
                row = self.random.randrange(2)
                ways = (lambda t: placed(t, row), infeasible, lambda t: nominated(t, row))
                world.answer(choose(ways))
            case 4 | 5:
                self._move()
            case 6:
                self._delete()
            case 7:
                self._relabel()
            case _:
                self._purge()

    def _move(self) -> None:
        order = self.world.core.order
        for jid in [*order.jobs, *self.world.core.leaving]:
            state = order.known(jid)
            held = [t for t, s in enumerate(state.states) if s in HOLDING] if state else []
            if held and self.random.random() < 0.5:
                tasks = self.random.sample(held, self.random.randint(1, len(held)))
                states = (TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED)
                self.world.record(self.random.choice(states), jid, sorted(tasks))

    def _delete(self) -> None:
        documents = self.world.intake.documents
        keys = [k for k, d in documents.items() if k.kind in ("Pod", "PodGroup", "Job")]
        if keys:
            key = self.random.choice(keys)
            self.world.remove(key.kind, key.name, key.namespace)

    def _relabel(self) -> None:
        pods = [k for k, d in self.world.intake.documents.items() if not d.deleting]
        pods = [k for k in pods if k.kind == "Pod"]
        if pods:
            item = self.world.intake.documents[self.random.choice(pods)].object()
            item["metadata"]["labels"] = {"x": str(self.random.randrange(100))}
            self.world.put(item)

    def _purge(self) -> None:
        leaving = self.world.core.leaving
        result = [j for j, s in leaving.items() if not any(x in HOLDING for x in s.states)]
        self.world.purge(*result)


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_following_equals_listing_though_much_happens_while_changes_are_read(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes are read in steps, and between two of them others go on: each reading is that of the
    moment at which it began."""
    monkeypatch.setattr(changes, "STRIDE", 1)
    monkeypatch.setattr(changes, "SORTED", 2)
    life = Life(seed)
    followers = [ObjectFollower(life.world, kind) for kind in FOLLOWED]

    left = 0

    def between() -> None:
        nonlocal left
        if left and life.random.random() < 0.3:
            left -= 1
            life.step()

    for _ in range(60):
        life.step()
        for follower in followers:
            if life.random.random() < 0.3:
                left = 2
                follower.follow(between)
    for follower in followers:
        follower.follow()
        follower.check()


@pytest.mark.parametrize("seed", first_of(range(12), 3))
def test_following_equals_listing_in_any_history(seed: int) -> None:
    life = Life(seed)
    followers = [ObjectFollower(life.world, kind) for kind in FOLLOWED]
    for _ in range(150):
        life.step()
        for follower in followers:
            if life.random.random() < 0.3:
                follower.follow()
    for follower in followers:
        follower.follow()
        follower.check()


def test_a_watcher_resumes_from_any_version_without_loss() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=5)]), pod("p"))
    start = world.objects.version
    world.place()
    every = at_once(world.objects.changes(start, KIND["Pod"]))
    assert len(every) == 6
    for observed in range(1, 7):
        rest = at_once(world.objects.changes(every[observed - 1].version, KIND["Pod"]))
        assert {c.key for c in every[observed:]} <= {c.key for c in rest}


def test_nothing_is_remembered_of_deleted_objects() -> None:
    life = Life(99)
    for _ in range(300):
        life.step()
    world = life.world
    for key in [k for k in world.intake.documents if k.kind in ("Pod", "PodGroup", "Job")]:
        if key in world.intake.documents:
            world.remove(key.kind, key.name, key.namespace)
    for jid, state in world.core.leaving.items():
        held = [t for t, s in enumerate(state.states) if s in HOLDING]
        world.record(TaskState.FAILED, jid, held) if held else None
    world.purge(*world.core.leaving)
    objects = world.objects
    assert not any(objects._indexes[kind].records for kind in ("Pod", "PodGroup", "Job"))
    assert not any(objects._indexes[kind].counts for kind in ("Pod", "PodGroup", "Job"))
    assert objects.stories.jobs.keys() <= world.core.order.jobs.keys()
    assert objects.stories.happenings == sum(
        len(s.happenings) for s in objects.stories.jobs.values()
    )


def test_the_ring_is_bounded_and_counts_dropped_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PUBLISHED", 5)
    world = World()
    start = world.objects.version
    world.put(*(pod(f"p{i}") for i in range(10)))
    with pytest.raises(WatchExpired, match="is the oldest kept"):
        at_once(world.objects.changes(start, KIND["Pod"]))
    floor = world.objects._ring.floor
    assert world.changes(floor, "Pod") == [("ADDED", f"p{i}") for i in range(5, 10)]


def test_bodies_of_deleted_objects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "GONE_BYTES", 1000)
    world = World()
    world.put(*(pod(f"p{i}") for i in range(10)))
    start = world.objects.version
    for i in range(10):
        world.remove("Pod", f"p{i}")
    world.purge(*world.core.leaving)
    assert world.objects._ring._bytes <= 1000
    with pytest.raises(WatchExpired):
        at_once(world.objects.changes(start, KIND["Pod"]))


def test_deleted_jobs_take_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of jobs are twenty times as large as the bodies of small ones."""
    monkeypatch.setattr(changes, "GONE_BYTES", 1 << 20)
    world, held = World(), list[int]()
    tracemalloc.start()
    try:
        for wave in range(9):
            names = [f"p{wave}-{i}" for i in range(100)]
            world.put(*map(pod, names))
            for name in names:
                world.remove("Pod", name)
            world.purge(*world.core.leaving)
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[8] - held[3] < 1 << 20


def test_memory_of_deleted_jobs_is_given_back_after_a_while() -> None:
    world = World()
    names = [f"p{number}" for number in range(2000)]
    gc.collect()
    tracemalloc.start()
    try:
        for start in range(0, len(names), 100):
            world.put(*map(pod, names[start : start + 100]))
        stored, _ = tracemalloc.get_traced_memory()
        for name in names:
            world.remove("Pod", name)
        world.purge(*world.core.leaving)
        start = world.objects.version
        for _ in range(10):
            world.objects.sweep()
        deleted, _ = tracemalloc.get_traced_memory()
        world.now += changes.KEPT_SECONDS
        world.put(pod("young"))
        for _ in range(10):
            world.objects.sweep()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert deleted > stored / 2  # a watcher may still ask for them
    assert held < changes.LITTLE_BYTES + stored / 4
    assert world.changes(start, "Pod") == [("ADDED", "young")]
    with pytest.raises(WatchExpired):
        at_once(world.objects.changes(start - len(names), KIND["Pod"]))


async def test_simultaneous_changes_wake_a_waiter_once() -> None:
    world = World()
    since = world.objects.version
    woken: list[int] = []

    async def wait() -> None:
        await world.objects.wait(since)
        woken.append(world.objects.version)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(wait())
        group.create_task(wait())
        await asyncio.sleep(0)
        world.put(pod("p"))
        world.put(pod("q"))
        newest = world.objects.version
    assert woken == [newest, newest]
    await asyncio.wait_for(world.objects.wait(since), 60)  # there is something already


async def test_a_watcher_that_leaves_is_forgotten() -> None:
    world = World()
    waiting = asyncio.create_task(world.objects.wait(world.objects.version))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert world.objects._watchers._waiting == 0


def test_documents_keep_the_authors_fields() -> None:
    world = World()
    item = pod("p")
    item["metadata"]["annotations"] |= {"quadrant.dev/shard": "mine", "note": "kept"}
    item["metadata"]["resourceVersion"] = "7"
    world.put(item)
    document = world.objects.document(Key("Pod", "ns", "p"))
    assert document is not None and document.version == world.objects.version
    metadata = world.get("Pod", "p")["metadata"]
    assert metadata["annotations"]["note"] == "kept"
    assert "quadrant.dev/shard" not in metadata["annotations"]
    assert metadata["resourceVersion"] == str(document.version)
