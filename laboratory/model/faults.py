"""The failures in the model: a crash of any role, a pause of any process, expiring leases."""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.model.leader import put
from laboratory.model.state import (
    DEAD,
    JOBS,
    PAUSED,
    SHARDS,
    STANDBY,
    TURN,
    UP,
    ModelCoordinator,
    ModelProcess,
    ModelStep,
    State,
    with_item,
)
from laboratory.model.worker import JOB_NAMES


def steps(s: State) -> Iterator[ModelStep]:
    yield from _crashes(s)
    yield from _pauses(s)
    yield from _wakes(s)
    yield from _leases_end(s)
    yield from _accepted(s)


def _crashes(s: State) -> Iterator[ModelStep]:
    if not s.crashes:
        return
    less = s._replace(crashes=0)
    for index, c in enumerate(s.coordinators):
        if c.role != STANDBY:
            text = (
                f"the coordinator of leadership {c.leadership} is killed, and starts as a standby"
            )
            yield ModelStep(text, put(less, index, ModelCoordinator()))
    for shard in SHARDS:
        process = s.processes[shard]
        if process.status != DEAD:
            messages = tuple(m for m in s.messages if m.kind != TURN or m.shard != shard or m.old)
            dead = process._replace(status=DEAD)
            after = less._replace(processes=with_item(s.processes, shard, dead), messages=messages)
            yield ModelStep(f"worker {shard} is killed", after)
    again = less._replace(run=s.run + 1)
    yield ModelStep("the server is killed and started again", again)
    for job in JOBS:
        if s.places[job] != ():
            lost = again._replace(places=with_item(s.places, job, ()), rolled=True)
            yield ModelStep(
                f"the server comes back without the placement of {JOB_NAMES[job]}", lost
            )


def _pauses(s: State) -> Iterator[ModelStep]:
    if not s.pauses:
        return
    less = s._replace(pauses=0)
    for index, c in enumerate(s.coordinators):
        if c.role != STANDBY:
            text = f"the coordinator of leadership {c.leadership} is paused"
            yield ModelStep(text, put(less, index, c._replace(paused=True)))
    for shard in SHARDS:
        if s.processes[shard].status == UP:
            paused = s.processes[shard]._replace(status=PAUSED)
            after = less._replace(processes=with_item(s.processes, shard, paused))
            yield ModelStep(f"worker {shard} is paused", after)


def _wakes(s: State) -> Iterator[ModelStep]:
    """A paused process resumes, and renews its lease if it still holds it."""
    for index, c in enumerate(s.coordinators):
        if c.paused:
            after = put(s, index, c._replace(paused=False))
            if s.leadership == c.leadership:
                after = after._replace(lease_lasts=True)
            yield ModelStep(f"the coordinator of leadership {c.leadership} wakes", after)
    for shard in SHARDS:
        process = s.processes[shard]
        if process.status == PAUSED:
            awake = ModelProcess(process.epoch, process.run, UP)
            after = s._replace(processes=with_item(s.processes, shard, awake))
            if s.shards[shard] == process.epoch:
                after = after._replace(lasts=with_item(s.lasts, shard, True))
            yield ModelStep(f"worker {shard} wakes", after)


def _leases_end(s: State) -> Iterator[ModelStep]:
    """The steps in which a lease that nobody renews expires."""
    renewed = any(c.leadership == s.leadership and not c.paused for c in s.coordinators)
    if s.lease_lasts and not renewed:
        yield ModelStep("the leader's lease expires", s._replace(lease_lasts=False))
    for shard in SHARDS:
        process = s.processes[shard]
        if s.lasts[shard] and process.status != UP and process.epoch == s.shards[shard]:
            after = s._replace(lasts=with_item(s.lasts, shard, False))
            yield ModelStep(f"the lease of shard {shard} runs out", after)


def _accepted(s: State) -> Iterator[ModelStep]:
    """The operator accepts an old copy of the data; nobody may lead meanwhile."""
    if s.rolled and not s.counts and not s.lease_lasts:
        yield ModelStep("the operator says that the copy counts", s._replace(counts=True))
