"""Any order of submissions, deletions and purges: the ledger takes every batch of operations, and
what it holds afterwards is all there is to know."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from shared.ledger.entries.intake_batch import IntakeBatch
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch, StatusBatch, StatusItem, TaskState
from tests.builders.objects import (
    hyper_node,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
)
from tests.coordinator.intake.bench import BEST_EFFORT, kept_documents, same, state
from tests.examples import examples


class IntakeStory:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.intake = Intake()
        self.ledger = MemoryLedger()
        leader = at_once(self.ledger.claim(COORDINATOR))
        self.run = at_once(self.ledger.bless(leader))
        self.epoch: Epoch = at_once(self.ledger.claim("intake", leader=leader))
        self.sequence = 0
        self.now = 1.0

    def store(self, admission: Admission) -> None:
        self.sequence += 1
        documents = kept_documents(admission)
        batch = IntakeBatch("intake", self.epoch, self.sequence, self.run, admission.ops, documents)
        at_once(self.ledger.store(batch))

    def fail(self, members: list[tuple[int, int]]) -> None:
        """As the coordinator does it: these are pending, and deleted."""
        self.sequence += 1
        roles = [self.intake.registry.jobs[jid].role_of(tix) for jid, tix in members]
        items = [
            StatusItem(TaskState.FAILED, jid, [tix], [0], role.cid, role.group)
            for (jid, tix), role in zip(members, roles, strict=True)
        ]
        batch = StatusBatch("intake", self.epoch, self.sequence, self.run, items)
        at_once(self.ledger.record(batch))

    def some_object(self) -> dict[str, Any]:
        r = self.rng
        i = r.randrange(3)
        item = r.choice(
            (
                lambda: pod(f"p-{i}", **r.choice(({}, BEST_EFFORT, {"priority": 3}))),
                lambda: pod(f"g-w-{i}", group="g", role="w", **r.choice(({}, BEST_EFFORT))),
                lambda: pod(f"j-w-{i}"),
                lambda: pod_group("g", minMember=i, queue=r.choice(("default", "q", "none"))),
                lambda: pod_group("g", minMember=2, minTaskMember={"w": i}),
                lambda: job("j", tasks=[task(replicas=i + 1)], queue=r.choice(("default", "q"))),
                lambda: job("j-w", tasks=[task("x", replicas=1)]),
                lambda: queue("q", parent=r.choice(("", "top"))),
                lambda: queue(r.choice(("top", "root")), weight=i),
                lambda: node(f"n-{i}", labels={"zone": str(r.randrange(2))}),
                lambda: hyper_node("h", "n-0"),
                lambda: priority_class("high", value=r.choice((1, 1, 2))),
            )
        )()
        if r.random() < 0.3:
            item["metadata"].setdefault("labels", {})["l"] = str(r.randrange(2))
        return item

    def step(self) -> None:
        r, intake = self.rng, self.intake
        self.now += 1.0
        what = r.random()
        if what < 0.45:
            objects = [self.some_object() for _ in range(r.choice((1, 2, 5)))]
            keep, atomic = r.random() < 0.9, r.random() < 0.2
            before = None if keep else state(intake)
            admission = intake.admit(objects, self.now, keep=keep, atomic=atomic)
            if before is None:
                self.store(admission)
            else:
                assert same(state(intake), before)
        elif what < 0.8:
            meta = (obj := self.some_object())["metadata"]
            namespace = meta.get("namespace", "")
            admission = intake.remove(obj["kind"], namespace, meta["name"], self.now)
            self.store(admission)
            self.fail(admission.tasks_gone)
        else:
            left = intake.registry
            jids = [jid for jid in left.leaving if r.random() < 0.7]
            gone = [unpack_task(task) for task in left.deleting if r.random() < 0.7]
            self.store(intake.purge([*jids, 999], [*gone, (999, 0)]))

    def check(self) -> None:
        snapshot: Snapshot = at_once(self.ledger.snapshot())
        again = Intake()
        again.restore(snapshot)
        assert same(state(again), state(self.intake))
        registry = self.intake.registry
        for jid in (*registry.jobs, *registry.leaving):
            assert snapshot.jobs[jid].gone == (jid in registry.leaving)
        assert set(snapshot.jobs) == {*registry.jobs, *registry.leaving}
        self.check_held(snapshot)
        for document in registry.documents.values():
            if document.key.kind in ("Pod", "PodGroup", "Job"):
                assert document.jid in registry.jobs or document.jid in registry.leaving

    def check_held(self, snapshot: Snapshot) -> None:
        """Nothing was ever placed: held are the members that ask for nothing and are not gone."""
        registry = self.intake.registry
        for jid, job_entry in registry.jobs.items():
            held = [0] * len(job_entry.groups)
            for role in job_entry.roles:
                if role.cid in registry.best_effort:
                    members = range(role.first, role.first + role.count)
                    named = [t for t in members if job_entry.kind == "Job" or job_entry.pod_name(t)]
                    count = sum(1 for t in named if (jid << 32 | t) not in registry.deleting)
                    held[0] += count
                    if role.group:
                        held[role.group] += count
            assert [g.held for g in snapshot.jobs[jid].groups[: len(held)]] == held, job_entry.key


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 40))
def test_the_ledger_knows_everything(seed: int, steps: int) -> None:
    story = IntakeStory(seed)
    for _ in range(steps):
        story.step()
        story.check()
