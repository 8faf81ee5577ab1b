"""Columns of specifications say what a decoded specification says, however it came to be there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shard_worker.session_model import job_facts
from shard_worker.session_model.job_facts import JobFacts
from shard_worker.view import job_columns
from shard_worker.view.job_columns import JobColumns
from shared.messages.messages import Group
from shared.model.model import Job, Role
from shared.records.specs_jobs import encode_job


def job(jid: int, draw: random.Random) -> Job:
    roles = [Role("a", draw.randrange(3), 0, draw.randint(1, 2))]
    if draw.random() < 0.3:
        first = roles[0].count + (draw.random() < 0.2)
        roles.append(Role("b", 7, first, 1, annotations=(("x", str(draw.randrange(2))),)))
    return Job(
        jid=jid,
        namespace="ns",
        name=f"j{jid}",
        kind=draw.choice(["PodGroup", "Pod"]),
        uid=draw.choice(["", "b", "a", "c"]),
        queue=draw.choice(["q", "r", "s"]),
        created=draw.choice([1.0, 2.0]),
        priority=draw.randrange(-3, 3),
        groups=(Group(-1, draw.randint(0, 2)),),
        roles=tuple(roles),
        role_minima=draw.choice([(), (("a", 1),)]),
        labels=draw.choice([(), (("pool", "x"),)]),
    )


def is_in_pool(job: Job) -> bool:
    return not job.labels


def check(facts: JobFacts, columns: JobColumns, jobs: dict[int, Job], jids: list[int]) -> None:
    lines = facts.read(columns, np.array(jids, np.int64))
    assert facts.column("jid")[lines].tolist() == jids

    def column(name: str) -> list[object]:
        result: list[object] = facts.column(name)[lines].tolist()
        return result

    mine = [jobs[jid] for jid in jids]
    assert column("priority") == [one.priority for one in mine]
    assert column("created") == [one.created for one in mine]
    assert column("minimum") == [one.groups[0].minimum for one in mine]
    assert column("uid") == [one.uid or one.key for one in mine]
    assert column("group") == [one.key if one.kind == "PodGroup" else "" for one in mine]
    assert column("in_pool") == [is_in_pool(one) for one in mine]
    assert column("has_minima") == [bool(one.role_minima) for one in mine]
    contiguous = [len(j.roles) == 1 or j.roles[1].first == j.roles[0].count for j in mine]
    assert column("tasks") == [
        one.tasks if good else -1 for one, good in zip(mine, contiguous, strict=True)
    ]
    queues, shapes = facts.column("queue")[lines], facts.column("shape")[lines]
    assert [facts.queues[code] for code in queues] == [one.queue for one in mine]
    assert [facts.shapes[code] for code in shapes] == [
        tuple((role.cid, role.annotations, role.count) for role in one.roles) for one in mine
    ]
    by_age = sorted(jids, key=lambda j: (jobs[j].created, jobs[j].uid or jobs[j].key, j))
    assert [jids[at] for at in np.argsort(facts.age[lines])] == by_age


@pytest.mark.parametrize("seed", range(12))
def test_columns_follow_specifications(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the bytes of a specification come to stand where those of another one stood."""
    monkeypatch.setattr(job_columns, "_WASTE", 200)
    monkeypatch.setattr(job_facts, "_FEW_CODES", 2)
    draw = random.Random(seed)
    columns, facts = JobColumns(), JobFacts(is_in_pool)
    jobs = {jid: job(jid, draw) for jid in range(0, 20, 2)}
    columns.load([(jid, 0, False, encode_job(one)) for jid, one in jobs.items()])
    for _ in range(60):
        jid = draw.randrange(30)
        if jid in jobs and draw.random() < 0.3:
            columns.forget(columns.slot(jid))
            columns.tidy()
            del jobs[jid]
        else:
            jobs[jid] = job(jid, draw)
            columns.put(jid, 0, encode_job(jobs[jid]))
        if draw.random() < 0.5:
            sample = sorted(draw.sample(sorted(jobs), draw.randint(0, len(jobs))))
            check(facts, columns, jobs, sample)
    check(facts, columns, jobs, sorted(jobs))


def test_only_changed_objects_are_decoded() -> None:
    draw, columns, facts = random.Random(1), JobColumns(), JobFacts(is_in_pool)
    jobs = {jid: job(jid, draw) for jid in range(20)}
    columns.load([(jid, 0, False, encode_job(one)) for jid, one in jobs.items()])
    check(facts, columns, jobs, list(range(10)))
    check(facts, columns, jobs, list(range(5, 15)))
    assert facts.decoded == 15
    jobs[3] = job(3, draw)
    columns.put(3, 0, encode_job(jobs[3]))
    check(facts, columns, jobs, list(range(20)))
    assert facts.decoded == 15 + 5 + 1
