"""Plugins of third parties, as an installer leaves them: a module, and its entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FRAIL = '''
"""Raises at the point that the policy names, for what asks for two cores."""


class Frail:
    name = "frail"

    def __init__(self, option):
        self.at = option.text("frail.at")

    def on_session_open(self, ssn):
        if self.at == "on_session_open":
            raise OSError("no licence")
        if self.at == "Predicate":
            ssn.add_predicate_fn(lambda cls, node: self.fail(cls))
        if self.at == "NodeOrder":
            ssn.add_node_order_fn(scorer=self)
        if self.at == "LivePredicate":
            ssn.add_live_predicate_fn(
                lambda task, world: self.fail(task.cls) or [], scope=self.scope()
            )
        if self.at == "AllocateFunc":
            ssn.add_event_handler(self.handler())
            ssn.add_batch_node_order_fn(lambda task, rows, world: rows * 0.0)
        if self.at == "JobOrder":
            ssn.add_job_order_fn(key=lambda job, cluster: self.fail(job))
        if self.at == "JobValid":
            ssn.add_job_valid_fn(lambda job, cluster: self.fail(job))
        if self.at == "Overused":
            ssn.add_overused_fn(lambda queue, cluster: self.of_queue(queue))
        if self.at == "QueueOrder":
            ssn.add_queue_order_fn(key=lambda queue, cluster: self.of_queue(queue))
        if self.at == "Allocatable":
            ssn.add_allocatable_fn(lambda queue, requests, cluster: not self.of_queue(queue))
        if self.at == "TaskOrder":
            ssn.add_task_order_fn(key=lambda role: 1 / (role.count != 3))
        if self.at == "JobReady":
            ssn.add_job_ready_fn(None, counted=lambda progress: 1 / (progress.minimum[0] != 3))
        if self.at == "JobStarving":
            ssn.add_job_starving_fn(lambda job: bool(self.fail(job)))
        if self.at == "JobEnqueueable":
            ssn.add_job_enqueueable_fn(lambda job, cluster: self.fail(job) or 1)
        if self.at == "JobEnqueued":
            ssn.add_job_enqueued_fn(lambda job, cluster: self.fail(job))

    def fail(self, of):
        if (0, 2000) in getattr(of, "requests", ()) or of.__class__.__name__ == "JobInfo":
            if of.__class__.__name__ != "JobInfo" or of.job.name.startswith("bad"):
                raise KeyError("rack")
        return None

    def of_queue(self, queue):
        if queue.queue.name == "frail":
            raise LookupError("no budget")
        return 0

    def scope(self):
        from shard_worker.framework.plugin import Scope

        return Scope.NODE

    def handler(self):
        from shard_worker.framework.plugin import EventHandler

        return EventHandler(self.count, lambda task: None)

    seen = 0

    def count(self, task):
        self.seen += 1
        if self.seen == 2:  # the first task has its place by then
            self.fail(task.cls)

    node_local = True

    def rows(self, cls, view, rows):
        return view.column("used", 0)[rows] * 0.0

    def row(self, cls, view, row):
        if view.column("used", 0)[row] > 0:
            self.fail(cls)
        return 0.0
'''


ASKED_BY = {
    "JobEnqueueable": '"enqueue, allocate"',
    "JobEnqueued": '"enqueue, allocate"',
    "JobStarving": '"allocate, preempt"',
}
"""Point -> the actions of a policy that asks at it; absent: allocate is enough."""


def install_frail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package of the plugin ``frail`` where Python finds it."""
    monkeypatch.syspath_prepend(str(package(folder, "frail", FRAIL)))
    monkeypatch.delitem(sys.modules, "frail", raising=False)


def package(folder: Path, name: str, source: str) -> Path:
    """The directory with a package of one plugin, whose class has its name."""
    site = folder / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    entry = f"[quadrant.plugins]\n{name} = {name}:{name.capitalize()}\n"
    (info / "entry_points.txt").write_text(entry)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (site / f"{name}.py").write_text(source)
    return site


def frail_policy(at: str) -> str:
    """A policy with the plugin, which raises at this point."""
    frail = f"{{name: frail, arguments: {{frail.at: {at}}}}}"
    actions = ASKED_BY.get(at, "allocate")
    return f"actions: {actions}\ntiers: [{{plugins: [{{name: gang}}, {frail}]}}]\n"
