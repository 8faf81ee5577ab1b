"""Any order of submissions, deletions, endings and purges: what the ledger holds afterwards is all
there is to know."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.intake.documents.document import Key
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.memory.synchronous import at_once
from tests.builders.objects import job, pod, queue, task
from tests.coordinator.intake.bench import same, state
from tests.coordinator.intake.test_story import IntakeStory
from tests.examples import examples

NEXT = ("Pending", "Pending", "Failed", "Aborted")


class Lives(IntakeStory):
    """Jobs that begin anew, end and grow, beside pods that take their names."""

    def some_object(self) -> dict[str, Any]:
        r = self.rng
        name = r.choice(("a", "b"))
        then = task("then", dependsOn={"name": ["w"]})
        policies = [{"event": "*", "action": r.choice(("AbortJob", "RestartJob"))}]
        ttl = r.choice((1, 2))
        item = r.choice(
            (
                lambda: job(name, tasks=[task("w")], policies=policies),
                lambda: job(name, tasks=[then, task("w")], ttlSecondsAfterFinished=ttl),
                lambda: pod(f"{name}-then-0"),
                lambda: queue("q", weight=r.randrange(3)),
            )
        )()
        if r.random() < 0.3:
            item["metadata"].setdefault("labels", {})["l"] = str(r.randrange(2))
        return item

    def step(self) -> None:
        if self.rng.random() < 0.5:
            super().step()
            return
        r, intake = self.rng, self.intake
        self.now += 1.0
        jobs = [d for d in intake.documents.values() if d.key.kind == "Job"]
        if not jobs:
            return
        document = r.choice(jobs)
        key, jid = document.key, document.jid if r.random() < 0.9 else 99
        match r.randrange(4):
            case 0 | 1:
                following = r.choice(NEXT)
                state = {"phase": "Stopping", "next": following, "retryCount": 1, "since": self.now}
                self.store(intake.end(key, jid, state))
            case 2:
                self.store(intake.grow(key, jid, ["then"]))
            case _:
                created = document.created if r.random() < 0.5 else 0.5
                self.store(intake.expire(key, created, self.now))

    def check(self) -> None:
        snapshot: Snapshot = at_once(self.ledger.snapshot())
        again = type(self.intake)()
        again.restore(snapshot)
        assert same(state(again), state(self.intake))
        registry = self.intake.registry
        assert set(snapshot.jobs) == {*registry.jobs, *registry.leaving}
        for document in registry.documents.values():
            if document.key.kind == "Job":
                self.check_job(document.key)

    def check_job(self, key: Key) -> None:
        """Alive, on its way out, or ended: its document tells which."""
        registry, document = self.intake.registry, self.intake.documents[key]
        state = document.state or {}
        if document.jid < 0:
            assert "ended" in state
            assert key.path not in registry.batch_jobs
            return
        assert registry.batch_jobs[key.path] == document.jid
        stops = document.deleting is not None or "next" in state
        assert (document.jid in registry.leaving) == stops
        assert (document.jid in registry.jobs) != stops


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 40))
def test_the_ledger_knows_every_end(seed: int, steps: int) -> None:
    story = Lives(seed)
    for _ in range(steps):
        story.step()
        story.check()
