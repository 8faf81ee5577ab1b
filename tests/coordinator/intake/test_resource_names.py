"""Names of resources: a bound that is told by field, and what nothing uses is given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.intake.admission import resource_names
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.resource_names import doubt, free, keep_slots, look
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from coordinator.service.resource_names import free_unused_names
from shared.ledger.entries.intake_batch import Observe
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun
from shared.units.slots import BASE, MOST_ASKED, MOST_RESOURCES, Slots
from tests.builders.objects import container, job, node, pod, pod_group, queue, task
from tests.coordinator.intake.bench import Bench, same, state

OTHER = "example.com/"


def asking(name: str, *resources: str) -> dict[str, Any]:
    requests = {"cpu": "1", **dict.fromkeys(resources, "1")}
    return pod(name, containers=[{"name": "c", "resources": {"requests": requests}}])


def offering(name: str, *resources: str) -> dict[str, Any]:
    node_item = node(name)
    node_item["status"]["allocatable"] |= dict.fromkeys(resources, "4")
    return node_item


def many(count: int, prefix: str = OTHER) -> list[str]:
    return [f"{prefix}r{i}" for i in range(count)]


def freed(bench: Bench) -> list[str]:
    """As the service does it, where the ledger counts nothing."""
    registry = bench.intake.registry
    doubt(registry)
    for _ in look(registry):
        pass
    names = sorted(registry.doubtful)
    bench._keep(free(registry))
    return names


# --- the bound ------------------------------------------------------------------------------------


def test_pods_may_name_so_many_that_no_node_offers_and_nodes_all_that_are_left() -> None:
    bench = Bench()
    for i, name in enumerate(many(MOST_ASKED)):
        bench.take(asking(f"p{i}", name))
    (refusal,) = bench.admit(asking("beyond", f"{OTHER}more")).refused
    assert (refusal.kind, refusal.field) == ("Pod", "resources.requests")
    assert f"{OTHER}more" in refusal.value
    assert f"of {MOST_ASKED} that may be; ask for what nodes offer" in refusal.message
    left = MOST_RESOURCES - len(BASE) - MOST_ASKED
    bench.take(offering("n", *many(left, "node.example.com/")))
    bench.take(asking("known", "node.example.com/r0"))
    (refusal,) = bench.admit(offering("n2", f"{OTHER}last")).refused
    assert refusal.field == "status.allocatable"
    assert f"no more than {MOST_RESOURCES} may; leave it out, or delete" in refusal.message


@pytest.mark.parametrize(
    "item,field",
    [
        (asking("p", *many(80)), "resources.requests"),
        (offering("n", *many(80)), "status.allocatable"),
        (queue("q", capability=dict.fromkeys(many(80), "1")), "spec.capability"),
        (queue("q", deserved=dict.fromkeys(many(80), "1")), "spec.deserved"),
        (pod_group("g", minResources=dict.fromkeys(many(80), "1")), "spec.minResources"),
        (
            job("j", tasks=[task("t", template={"spec": asking("p", *many(80))["spec"]})]),
            "resources.requests",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else value,
)
def test_a_refused_object_registers_no_resource_name(item: dict[str, Any], field: str) -> None:
    bench = Bench()
    before = state(bench.intake)
    admission = bench.admit(item, atomic=True)
    assert [refusal.field for refusal in admission.refused] == [field]
    assert bench.intake.registry.slots.names == list(BASE)
    assert same(before, state(bench.intake))


def test_a_list_counts_together() -> None:
    bench = Bench()
    pods = [asking(f"p{i}", name) for i, name in enumerate(many(MOST_ASKED + 5))]
    admission = bench.admit(*pods)
    assert (admission.accepted, len(admission.refused)) == (MOST_ASKED, 5)


# --- given back -----------------------------------------------------------------------------------


def test_a_number_is_given_to_another_name_and_a_follower_knows_it() -> None:
    bench = Bench()
    bench.take(offering("n", f"{OTHER}kept"), asking("p", f"{OTHER}a"), asking("q", f"{OTHER}b"))
    registry = bench.intake.registry
    slot, cid = registry.slots.find(f"{OTHER}a"), registry.jobs[0].roles[0].cid
    assert freed(bench) == []
    jid = bench.job("p").jid
    bench.remove("Pod", "p")
    assert freed(bench) == [], "it may still run"
    bench.purge(jid)
    assert freed(bench) == [f"{OTHER}a"]
    assert cid not in registry.classes.values()
    assert cid not in bench.kept.snapshot.classes
    assert same(state(bench.intake), state(bench.restored()))
    bench.take(asking("new", f"{OTHER}c"))
    assert registry.slots.find(f"{OTHER}c") == slot
    assert bench.job("new").roles[0].cid > max(cid, bench.job("q").roles[0].cid)
    assert same(state(bench.intake), state(bench.restored()))


@pytest.mark.parametrize("what", ["node", "queue", "group", "job"])
def test_a_resource_name_in_use_is_kept(what: str) -> None:
    bench = Bench()
    name = f"{OTHER}a"
    review_client = {
        "node": offering("n", name),
        "queue": queue("q", guarantee={"resource": {name: "1"}}),
        "group": pod_group("g", minResources={name: "1"}),
        "job": job("j", tasks=[task("t", template={"spec": asking("p", name)["spec"]})]),
    }[what]
    bench.take(review_client)
    assert freed(bench) == []
    assert bench.intake.registry.slots.find(name) is not None


def scanned() -> tuple[Bench, Registry]:
    """A scan has found that nobody uses a name any more."""
    bench = Bench()
    bench.take(asking("p", f"{OTHER}a"))
    (jid,) = bench.jobs
    bench.remove("Pod", "p")
    bench.purge(jid)
    registry = bench.intake.registry
    doubt(registry)
    for _ in look(registry):
        pass
    return bench, registry


def test_a_resource_name_used_during_the_scan_is_kept() -> None:
    """Also by a template that was seen before, of which the class is known."""
    bench, registry = scanned()
    assert registry.doubtful == {f"{OTHER}a"}
    bench.take(asking("again", f"{OTHER}a"))
    assert registry.doubtful == set()
    assert free(registry).ops == []


def test_the_scan_ends_with_its_last_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_names, "PORTION", 2)
    bench = Bench()
    for number in range(10):
        bench.take(asking(f"p{number}", f"{OTHER}a"))
    registry = bench.intake.registry
    doubt(registry)
    assert list(look(registry)) == []
    assert registry.doubtful == set()


def test_a_resource_name_counted_in_the_ledger_is_kept() -> None:
    _, registry = scanned()
    slot = registry.slots.find(f"{OTHER}a")
    assert slot is not None
    keep_slots(registry, [slot])
    assert free(registry).ops == []


@pytest.mark.parametrize("seed", range(20))
def test_numbers_and_names_stay_true_to_each_other(seed: int) -> None:
    r = random.Random(seed)
    slots = Slots()
    slot_numbers: dict[str, int] = {}
    for _ in range(200):
        name = f"{OTHER}{r.randrange(20)}"
        if name in slot_numbers and r.random() < 0.5:
            slots.free(name)
            del slot_numbers[name]
        else:
            slot_numbers[name] = slots.intern(name)
        assert len(set(slot_numbers.values())) == len(slot_numbers)
        assert {n: slots.find(n) for n in slot_numbers} == slot_numbers
        assert {n: i for i, n in enumerate(slots.names) if n and n not in BASE} == slot_numbers
    assert len(slots.names) <= 3 + 20


# --- with a ledger --------------------------------------------------------------------------------


@asynccontextmanager
async def writing(ledger: MemoryLedger, intake: Intake) -> AsyncIterator[IntakeWriter]:
    leader = await ledger.claim(COORDINATOR)
    await ledger.bless(leader)
    writer = IntakeWriter(
        intake,
        ledger,
        writer="intake",
        epoch=await ledger.claim("intake", leader=leader),
        run=AcceptedRun(lambda: ledger.bless(leader), await ledger.run_id()),
        stored=lambda changes: None,
    )
    running = asyncio.create_task(writer.run())
    yield writer
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_resource_that_others_use_is_kept_until_they_use_it_no_more() -> None:
    ledger, intake = MemoryLedger(), Intake()
    async with writing(ledger, intake) as writer:
        name = f"{OTHER}a"
        await writer.submit([node("n"), offering("m", name)])
        slot = intake.registry.slots.find(name)
        assert slot is not None
        await writer.store([Observe(0, [(slot, 5)])])
        await writer.submit([node("m")])  # it offers it no more
        assert await free_unused_names(ledger, intake, writer) == []
        await writer.store([Observe(0, [])])
        assert await free_unused_names(ledger, intake, writer) == [name]
        again = Intake()
        again.restore(await ledger.snapshot())
        assert same(state(intake), state(again))
        await writer.submit([asking("p", f"{OTHER}b")])
        assert intake.registry.slots.find(f"{OTHER}b") == slot
        assert container()  # the plain container asks for nothing of it
