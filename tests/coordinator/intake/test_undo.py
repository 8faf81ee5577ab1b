"""Admissions that the ledger refuses are undone: intake knows what it knew before, no more, no
less."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.intake.admission.journal import Journal, JournaledDict, JournaledSet
from coordinator.intake.admission.registry import Registry, unpack_task
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from tests.builders.objects import (
    EVERY_KIND,
    hyper_node,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
)
from tests.coordinator.intake.bench import same, state
from tests.examples import examples

STEPS = 60
NAMES = ("a", "b", "c", "d")


def test_a_dict_is_as_it_was_at_the_mark() -> None:
    journal = Journal()
    numbers: JournaledDict[str, int] = JournaledDict(journal)
    numbers.update({"a": 1, "b": 2})
    journal.mark()
    numbers["a"] = 5
    numbers["c"] = 6
    numbers.pop("b")
    numbers.update({"b": 7, "d": 8})
    del numbers["a"]
    assert numbers.setdefault("e", 9) == 9
    numbers.clear()
    numbers["f"] = 1
    journal.undo()
    assert numbers == {"a": 1, "b": 2}


def test_a_set_is_as_it_was_at_the_mark() -> None:
    journal = Journal()
    numbers: JournaledSet[int] = JournaledSet(journal, (1, 2, 3))
    journal.mark()
    numbers.add(3)
    numbers.add(4)
    numbers.discard(1)
    numbers.update((1, 5), (6,))
    numbers.difference_update((2, 3, 9))
    journal.undo()
    assert numbers == {1, 2, 3}


def test_changes_before_forget_are_not_undone() -> None:
    journal = Journal()
    numbers: JournaledDict[str, int] = JournaledDict(journal)
    journal.mark()
    numbers["a"] = 1
    journal.forget()
    numbers["b"] = 2
    journal.undo()
    assert numbers == {"a": 1, "b": 2}


def _objects(r: random.Random) -> list[dict[str, Any]]:
    name, other = r.choice(NAMES), r.choice(NAMES)
    strange = {"cpu": "1", f"example.com/{r.choice(NAMES)}": "2"}
    items = [
        pod(name),
        pod(f"m{name}", group=f"g{other}"),
        pod_group(f"g{name}", minMember=1, queue=f"q{other}"),
        queue(f"q{name}", weight=r.randrange(1, 9)),
        node(f"n{name}", labels={"zone": other}),
        job(f"j{name}", tasks=[task("t", replicas=r.randrange(1, 4))], queue=f"q{other}"),
        priority_class(f"p{name}"),
        hyper_node(f"h{name}", f"n{other}"),
    ]
    items[0]["spec"]["containers"][0]["resources"] = {"requests": strange}
    return r.sample(items, r.randrange(1, 5))


def _some_step(r: random.Random, intake: Intake) -> None:
    registry = intake.registry
    name = r.choice(NAMES)
    kinds = {
        "Pod": r.choice((name, f"m{name}")),
        "PodGroup": f"g{name}",
        "Queue": f"q{name}",
        "Node": f"n{name}",
    }
    kinds |= {"Job": f"j{name}", "PriorityClass": f"p{name}", "HyperNode": f"h{name}"}
    kind = r.choice([*kinds])
    key = Key("Job", "ns", f"j{name}")
    jid = registry.batch_jobs.get(key.path, -1)
    match r.randrange(7):
        case 0 | 1 | 2:
            intake.admit(_objects(r), now=r.random())
        case 3 | 4:
            intake.remove(kind, "ns", kinds[kind], now=r.random())
        case 5:
            deleting = [unpack_task(t) for t in sorted(registry.deleting)]
            intake.purge([*registry.leaving], deleting, now=r.random())
        case _:
            state_ = {"next": r.choice(["Pending", "Failed"]), "since": 0.0}
            r.choice([intake.end, intake.note])(key, jid, state_)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_undo_restores_intake_as_it_was_at_the_mark(seed: int) -> None:
    r = random.Random(seed)
    intake = Intake()
    intake.admit(EVERY_KIND, 1.0)
    for _ in range(STEPS):
        before, numbers = state(intake), _numbers(intake.registry)
        intake.mark()
        for _ in range(r.randrange(1, 4)):
            _some_step(r, intake)
        if r.random() < 0.5:
            intake.forget_mark()
            continue
        intake.undo()
        after = state(intake)
        assert same(before, after), _difference(before, after)
        assert _numbers(intake.registry) == numbers


def _numbers(registry: Registry) -> tuple[Any, ...]:
    numbers = registry.next_row, registry.next_qid, registry.next_jid, registry.next_cid
    return *numbers, list(registry.slots.names), set(registry.offered)


def _difference(before: Registry, after: Registry) -> list[str]:
    return [
        name
        for name in Registry.__slots__
        if name != "_journal" and getattr(before, name) != getattr(after, name)
    ]


def test_the_seeds_do_something_of_every_kind() -> None:
    """Else the test above would say little."""
    observed: set[str] = set()
    expected: Callable[[Registry], dict[str, Any]] = lambda registry: {  # noqa: E731
        name: getattr(registry, name)
        for name in ("queueless", "leaving", "deleting", "gone_nodes", "pods", "batch_jobs")
    }
    for seed in range(40):
        r = random.Random(seed)
        intake = Intake()
        for _ in range(STEPS):
            _some_step(r, intake)
            observed.update(name for name, result in expected(intake.registry).items() if result)
    assert observed == {"queueless", "leaving", "deleting", "gone_nodes", "pods", "batch_jobs"}
