"""Any text or number in any field of a watched object: no reader raises, and none holds the
event loop."""

from __future__ import annotations

import copy
import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coordinator.bind.devices_of_pod import devices_of_pod
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.kinds import KINDS
from coordinator.intake.intake import Intake
from shared.errors import InvalidInput
from shared.policy.model import Dialect
from shared.slices import Steps
from tests.coordinator.cluster.kubernetes.events import raw
from tests.coordinator.cluster.kubernetes.fuzz.objects import Json, objects
from tests.coordinator.cluster.kubernetes.fuzz.texts import (
    COSTLY,
    FRACTIONS,
    NUMBERS,
    own_keys,
    own_texts,
)
from tests.examples import ALL, THOROUGH, examples, first_of

T = TypeVar("T")

ROOT = Path(__file__).parents[5]
LOOP_SECONDS = 0.02
"""How long one step of a reader may hold the event loop."""
PART = 200
"""Altered objects that one mirror and one intake get, beside those that were not altered: to read
these was a fifth of the time with parts of 50."""


class Reader:
    """The readers of a service that follows a cluster, without the loops around them."""

    def __init__(self, *, kai: bool) -> None:
        self.kinds = {(kind.api_version, kind.written): kind.kind for kind in KINDS}
        self.slowest = 0.0
        self.admitted = 0
        self.mirror = Mirror(self.kinds.values(), ours=lambda name: name != "default-scheduler")
        self.intake = Intake(dated=True, dialect=Dialect.KAI if kai else Dialect.VOLCANO)
        for kind in self.kinds.values():
            self.mirror.absent(kind)
        for item in objects(kai=kai):
            self.read(item)

    def read(self, item: Json) -> None:
        kind = self.kinds[item["apiVersion"], item["kind"]]
        sent = raw(item)
        self._timed(lambda: self.mirror.take(kind, sent))
        delta = self._timed(lambda: self.mirror.take_delta(10))
        for _, unread in delta.unread:
            if not isinstance(
                unread.error, InvalidInput
            ):  # an amount that is none counts, and is told
                raise unread.error
        for key, changed in zip(delta.keys, delta.items, strict=True):
            changed |= {"apiVersion": item["apiVersion"], "kind": item["kind"]}
            admission = self._stepped(self.intake.admitting([changed], 1.8e9))
            self.admitted += admission.accepted
            if key.kind == "Pod":
                if admission.refused:
                    self.mirror.refused(changed, admission.refused[0].message)
                else:
                    self._bind(key[1:])

    def _stepped(self, steps: Steps[Admission]) -> Admission:
        while True:
            try:
                self._timed(lambda: next(steps))
            except StopIteration as stop:
                admission: Admission = stop.value
                return admission

    def _timed(self, step: Callable[[], T]) -> T:
        began = time.thread_time()
        try:
            return step()
        finally:
            self.slowest = max(self.slowest, time.thread_time() - began)

    def _bind(self, key: tuple[str, str]) -> None:
        """As the core reads a pod that is on a node by somebody else's doing."""
        registry = self.intake.registry
        task = unpack_task(registry.pods["/".join(key)])
        row = self.mirror.pods.by_key[key]
        self.mirror.admitted(key, row.uid, task)
        job, node = registry.jobs[task[0]], registry.nodes.get(row.node)
        if node is not None and task[1] < job.tasks:
            role, names = job.role_of(task[1]), registry.slots.names
            self._timed(lambda: devices_of_pod(node, row.marks, role, names))


def altered(base: list[Json], texts: list[str], keys: list[str], r: random.Random) -> Json:
    """One of the objects with one or two of its fields, annotations or labels rewritten."""
    item = copy.deepcopy(r.choice(base))
    for _ in range(r.choice((1, 1, 2))):
        if r.random() < 0.3:
            part = r.choice(("annotations", "annotations", "labels"))
            item["metadata"][part][r.choice(keys)] = _text(texts, r)
            continue
        places = [*_places(item)]
        holder, key = r.choice(places)
        value = holder[key]
        if isinstance(value, str):
            holder[key] = _text(texts, r)
        elif isinstance(value, float) or r.random() < 0.1:
            holder[key] = r.choice(FRACTIONS)
        else:
            holder[key] = r.choice(NUMBERS)
    return item


_IDENTITY = ("apiVersion", "kind", "uid", "namespace")


def _text(texts: list[str], r: random.Random) -> str:
    return r.choice(COSTLY) if r.random() < 0.5 else r.choice(texts)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of every text and number, but for what names the object to us."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        if isinstance(inner, dict | list):
            yield from _places(inner)
        elif key not in _IDENTITY and type(inner) is not bool:
            yield value, key


def each_key_with_costly_texts(base: list[Json], keys: list[str], *, kai: bool) -> Iterator[Json]:
    """Each annotation that any code reads, with each costly text, on each object alone: one half of
    the texts under Volcano's policy, the other under KAI's, changing from key to key."""
    for item in base:
        for number, key in enumerate(keys):
            for text in COSTLY if ALL else COSTLY[(number + kai) % 2 :: 2]:
                metadata = item["metadata"]
                if item["kind"] == "Pod" and key == "gpu-memory":
                    metadata = metadata | {"annotations": {"note": "b"}}
                notes = metadata["annotations"] | {key: text}
                yield item | {"metadata": metadata | {"annotations": notes}}


def naming_every_text(base: list[Json], texts: list[str]) -> Iterator[Json]:
    """Pods without claims, groups and shares whose arguments and selectors have every word that our
    code looks for."""
    bare = next(item for item in base if item["metadata"]["name"] == "bare")
    for at in range(0, len(texts), 100):
        words = texts[at : at + 100]
        container = bare["spec"]["containers"][0]
        args = bare["spec"] | {"containers": [container | {"args": words}]}
        yield bare | {"spec": args}
        yield bare | {"spec": bare["spec"] | {"nodeSelector": dict.fromkeys(words, "x")}}


def random_changes(base: list[Json], texts: list[str], keys: list[str]) -> Iterator[Json]:
    r = random.Random(33)
    for _ in range(examples(60_000) if THOROUGH else 2000):
        yield altered(base, texts, keys, r)


@pytest.mark.parametrize("kai", first_of([True, False]), ids=["kai", "volcano"])
@pytest.mark.timeout(600)
def test_no_text_and_no_number_of_a_watched_object_raises_or_holds_the_loop(kai: bool) -> None:
    texts = own_texts(ROOT)
    keys, base = own_keys(texts), objects(kai=kai)
    if not THOROUGH:  # the texts that cost most, of those that are alike
        keys = [*keys[::10], "gpu-fraction", "gpu-memory"]
    ways = (
        naming_every_text(base, texts),
        each_key_with_costly_texts(base, keys, kai=kai),
        random_changes(base, texts, keys),
    )
    gc.collect()
    gc.freeze()  # for good: later tests, too, walk nothing of what was collected
    read = sum(_read(part, kai=kai) for part in _parts(itertools.chain(*ways)))
    assert read > (30_000 if THOROUGH else 3000)


def _parts(items: Iterator[Json]) -> Iterator[list[Json]]:
    while part := [_anew(item, at) for at, item in enumerate(itertools.islice(items, PART))]:
        yield part


def _anew(item: Json, number: int) -> Json:
    """A pod by another name, so that it is not an earlier one that changed."""
    metadata = item["metadata"]
    if item["kind"] != "Pod" or type(metadata.get("name")) is not str:
        return item
    name = f"{metadata['name']}-{number}"
    return item | {"metadata": metadata | {"name": name, "uid": f"uid-{number}"}}


def _read(items: list[Json], *, kai: bool) -> int:
    reader = Reader(kai=kai)
    for item in items:
        reader.slowest = 0.0
        try:
            reader.read(item)
        except Exception as error:
            raise AssertionError(f"not read: {str(item)[:5000]}") from error
        if reader.slowest > LOOP_SECONDS:  # or the machine was slow: then it is not, again
            held = min(_read_alone(item, kai=kai) for _ in range(3))
            assert held < LOOP_SECONDS, (held, str(item)[:5000])
    return len(items)


def _read_alone(item: Json, *, kai: bool) -> float:
    reader = Reader(kai=kai)
    reader.slowest = 0.0
    reader.read(item)
    return reader.slowest
