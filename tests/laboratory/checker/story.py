"""Histories written by hand: a small world whose events are told one by one, right or wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from laboratory.checker.check import check
from laboratory.checker.report.report import CheckReport

CPU, PODS, GPU = 0, 2, 3
GPU_TASK = 1
"""Class: one GPU, one pod."""
BEST_EFFORT = 2
"""Class: one pod, nothing else."""
T0 = 1_700_000_000.0


class Story:
    """Four nodes n0..n3 of 2 GPUs, two shards of two, queue 1 (6 GPUs at most) below root 0."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.t = T0
        self._entries = 0
        self._acts = 0
        self._sequences: dict[str, int] = {}
        self.ledger("class", classes=[_class(GPU_TASK, [[PODS, 1, 0], [GPU, 1000, 0]], False)])
        self.ledger("class", classes=[_class(BEST_EFFORT, [[PODS, 1, 0]], True)])
        self.ledger("node", nodes=[_node(row, [[PODS, 10], [GPU, 2000]]) for row in range(4)])
        self.ledger("queue", queues=[_queue(0, -1, None), _queue(1, 0, [[GPU, 6000]])])
        self.ledger("partition", revision=1, shards={"0": [0, 1], "1": [2, 3]})

    # --- what is told ---------------------------------------------------------------------------

    def ledger(self, ev: str, *, writer: str = "coordinator", **body: Any) -> dict[str, Any]:
        self.t += 0.001
        self._entries += 1
        self._sequences[writer] = self._sequences.get(writer, 0) + 1
        event = {
            "t": self.t,
            "src": "ledger",
            "id": f"{round(self.t * 1000)}-{self._entries}",
            "writer": writer,
            "epoch": "1:abc",
            "seq": self._sequences[writer],
            "ev": ev,
            **body,
        }
        self.events.append(event)
        return event

    def cluster(self, ev: str, tasks: list[str], nodes: list[str], *answers: str) -> dict[str, Any]:
        self.t += 0.001
        self._acts += 1
        event = {
            "t": self.t,
            "src": "cluster",
            "n": self._acts,
            "ev": ev,
            "tasks": tasks,
            "nodes": nodes,
            "uids": [f"uid-{task.split('.')[0]}" for task in tasks],
            "answers": list(answers),
        }
        self.events.append(event)
        return event

    # --- shorter --------------------------------------------------------------------------------

    def job(
        self,
        jid: int,
        count: int,
        *,
        minimum: int = 1,
        groups: list[list[int]] | None = None,
        roles: list[list[int]] | None = None,
        spec: int = 1,
        qid: int = 1,
        priority: int = 0,
    ) -> dict[str, Any]:
        job: dict[str, Any] = {
            "jid": jid,
            "qid": qid,
            "spec": spec,
            "key": f"default/job-{jid}",
            "uid": f"uid-{jid}",
            "groups": groups or [[-1, minimum]],
            "roles": roles or [[GPU_TASK, 0, count, 0]],
        }
        if priority:
            job["priority"] = priority
        return self.ledger("job", jobs=[job])

    def commit(
        self,
        jid: int,
        places: dict[int, int],
        *,
        nominate: dict[int, int] | None = None,
        tail: int = 0,
        dropped: list[int] | None = None,
        shard: str = "0",
        level: int = 1,
        cid: int = GPU_TASK,
        verdict: str = "COMMITTED",
    ) -> dict[str, Any]:
        """``places`` and ``nominate``: tix -> row."""
        statement: dict[str, Any] = {
            "jid": jid,
            "verdict": verdict,
            "alloc": [[tix, row, cid, level] for tix, row in places.items()],
            "nominate": [[tix, row, cid, 3] for tix, row in (nominate or {}).items()],
            "dropped": dropped or [],
        }
        if tail:
            statement["tail"] = tail
        return self.ledger("commit", writer=shard, shard=shard, statements=[statement])

    def status(self, state: str, jid: int, places: dict[int, int]) -> dict[str, Any]:
        return self.ledger("status", items=[[state, jid, list(places), list(places.values())]])

    def acts(self, ev: str, jid: int, places: dict[int, int]) -> dict[str, Any]:
        """The cluster does the same with all these tasks; binds are answered OK."""
        tasks = [f"{jid}.{tix}" for tix in places]
        answers = ["OK"] * len(tasks) if ev == "bind" else []
        return self.cluster(ev, tasks, [f"n{row}" for row in places.values()], *answers)

    def run(self, jid: int, places: dict[int, int]) -> None:
        """Everything after the commit: bound, started, released, succeeded, on both sides."""
        steps = (("bind", "BOUND"), ("start", "RUNNING"), ("releasing", "RELEASING"))
        for ev, state in (*steps, ("succeeded", "SUCCEEDED")):
            self.acts(ev, jid, places)
            self.status(state, jid, places)

    # --- checking -------------------------------------------------------------------------------

    def line_of(self, event: dict[str, Any]) -> int:
        return next(i for i, other in enumerate(self.events, 1) if other is event)

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        return path

    def check(self, folder: Path, *, closed: bool = False) -> CheckReport:
        return check(self.write(folder / "history.jsonl"), closed=closed)


def good_story() -> Story:
    """Two gangs, one across shards; one tail task; a nomination that comes true; all finish."""
    story = Story()
    story.job(1, 4, minimum=3)
    story.job(2, 2, minimum=2)
    story.job(3, 2, minimum=2)
    story.commit(1, {0: 0, 1: 0, 2: 1, 3: 2}, tail=1, level=1)
    story.commit(2, {0: 2, 1: 3}, shard="1", level=2, verdict="RECHECKED")
    story.ledger("refusal", writer="1", shard="1", refused=[[3, "FIT"], [3, "TASK"]])
    for ev, state in (("bind", "BOUND"), ("start", "RUNNING"), ("releasing", "RELEASING")):
        story.acts(ev, 1, {0: 0, 1: 0, 2: 1, 3: 2})
        story.status(state, 1, {0: 0, 1: 0, 2: 1, 3: 2})
    story.commit(3, {}, nominate={0: 0, 1: 0})
    story.acts("succeeded", 1, {0: 0, 1: 0, 2: 1, 3: 2})
    story.status("SUCCEEDED", 1, {0: 0, 1: 0, 2: 1, 3: 2})
    story.commit(3, {0: 0, 1: 0}, dropped=[3])
    story.run(2, {0: 2, 1: 3})
    story.run(3, {0: 0, 1: 0})
    return story


def _class(cid: int, requests: list[list[int]], best_effort: bool) -> dict[str, Any]:
    return {"cid": cid, "requests": requests, "best_effort": best_effort}


def _node(row: int, allocatable: list[list[int]]) -> dict[str, Any]:
    return {"row": row, "name": f"n{row}", "allocatable": allocatable, "spec": 1}


def _queue(qid: int, parent: int, capability: list[list[int]] | None) -> dict[str, Any]:
    return {"qid": qid, "name": f"q{qid}", "parent": parent, "capability": capability}


def the_first(story: Story, folder: Path, *, closed: bool = False) -> tuple[int, int]:
    """(promise, line) of the first violation; fails where there is none."""
    report = story.check(folder, closed=closed)
    assert report.first is not None, "the checker found nothing"
    assert not report.ok
    return report.first.promise, report.first.line
