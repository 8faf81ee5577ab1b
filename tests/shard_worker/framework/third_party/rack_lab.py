"""A plugin as somebody else ships it, typed: it imports the framework and nothing behind it.

It keeps tasks off racks that are being serviced, prefers the rack with the most room, and lets only
jobs of a lower priority be taken away.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.plugin import (
    JobInfo,
    Node,
    PluginOption,
    Session,
    TaskClass,
    TaskInfo,
    World,
)


class RackLab:
    name = "rack-lab"

    def __init__(self, option: PluginOption) -> None:
        self.weight = option.whole("rack-lab.weight", 10)

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(self.in_service)
        ssn.add_node_order_fn(self.room)
        ssn.add_job_order_fn(key=lambda job, cluster: -job.job.priority)
        ssn.add_preemptable_fn(self.lower)
        ssn.add_job_valid_fn(self.named)

    def in_service(self, cls: TaskClass, node: Node) -> str | None:
        return "rack(s) in service" if node.labels.get("rack/service") == "true" else None

    def room(self, cls: TaskClass, node: Node) -> float:
        return self.weight * float(node.labels.get("rack/free", 0))

    def lower(
        self, evictor: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> Sequence[TaskInfo]:
        return [task for task in candidates if task.priority < evictor.priority]

    def named(self, job: JobInfo, cluster: object) -> str | None:
        return None if job.job.name else "the job has no name"
