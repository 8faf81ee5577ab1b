"""Volcano's scheduling gate: who gets it, who keeps it, and how it goes."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from shard_worker.session_model.queue_totals import QUEUE_GATE, opens_gate, reserves
from tests.builders.objects import job, pod, pod_group, task
from tests.coordinator.intake.bench import Bench

GATE, OTHER = {"name": QUEUE_GATE}, {"name": "mine"}


def asking(name: str, *gates: dict[str, str], **more: Any) -> dict[str, Any]:
    """A pod whose annotation asks for the gate."""
    new = pod(name, schedulingGates=list(gates), **more)
    new["metadata"]["annotations"][QUEUE_GATE] = "true"
    return new


def gates(bench: Bench, name: str) -> list[str]:
    """The gates of the pod's document."""
    spec = bench.intake.documents[Key("Pod", "ns", name)].object()["spec"]
    return [gate["name"] for gate in spec.get("schedulingGates", ())]


def test_the_annotation_adds_the_gate_and_reapplying_keeps_it(
    bench: Bench,
) -> None:
    bench.take(asking("a"), asking("b", OTHER), pod("plain"))
    assert [gates(bench, name) for name in ("a", "b", "plain")] == [
        [QUEUE_GATE],
        ["mine", QUEUE_GATE],
        [],
    ]
    [alone], [both] = bench.job("a").roles, bench.job("b").roles
    assert opens_gate(alone) and not opens_gate(both), "the other one has to go first"
    bench.take(asking("a"), asking("b"))
    assert [gates(bench, name) for name in ("a", "b")] == [[QUEUE_GATE]] * 2
    assert opens_gate(bench.job("b").roles[0])


def test_once_it_is_gone_it_stays_away(bench: Bench) -> None:
    bench.take(pod_group("g"))
    names = [f"a-{i}" for i in range(4)]
    bench.take(*(asking(name, group="g") for name in names))
    before = bench.job("g")
    bench.intake.remove_gates(before.jid, [1, 2])
    after = bench.job("g")
    assert after.spec > before.spec
    assert [(r.first, r.names, r.gated, reserves(r)) for r in after.roles] == [
        (0, ("a-0",), True, False),
        (1, ("a-1", "a-2"), False, True),
        (3, ("a-3",), True, False),
    ]
    assert [gates(bench, name) for name in names] == [[QUEUE_GATE], [], [], [QUEUE_GATE]]
    bench.take(*(asking(name, group="g") for name in names))
    assert bench.job("g") == after, "nobody gets it a second time"
    assert bench.intake.remove_gates(after.jid, [1, 2]).jobs == [], "they have none"
    bench.intake.remove_gates(after.jid, [0, 3])
    assert [r.names for r in bench.job("g").roles] == [tuple(names)], "one role again"


def test_pods_of_a_job_have_it_from_their_template(bench: Bench) -> None:
    role = task("w", replicas=3)
    role["template"]["metadata"] = {"annotations": {QUEUE_GATE: "true"}}
    bench.take(job("j", tasks=[role, task("x")]))
    admitted_job = bench.job("j")
    assert [opens_gate(r) for r in admitted_job.roles] == [True, False]
    bench.intake.remove_gates(admitted_job.jid, [0])
    assert [(r.name, r.count, r.gated) for r in bench.job("j").roles] == [
        ("w", 1, False),
        ("w", 2, True),
        ("x", 2, False),
    ]
    assert not bench.take(job("j", tasks=[role, task("x")])).jobs, "the same Job"


def test_a_dump_is_taken_as_it_is() -> None:
    watching = Intake(observe=True)
    watching.admit([asking("a")], 1.0)
    [observed] = watching.registry.jobs.values()
    assert reserves(observed.roles[0]) and not observed.roles[0].gated
