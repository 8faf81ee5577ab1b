"""The model's rows, as intake makes them of objects."""

from __future__ import annotations

from typing import Any

from shared.messages.messages import Group
from shared.model.model import Job, Node, Role, TaskClass
from shared.units.slots import CPU, PODS

ONE = TaskClass(requests=((CPU, 1000), (PODS, 1)))
TWO = TaskClass(requests=((CPU, 2000), (PODS, 1)))


def node(row: int, *, cpus: int = 4, **more: Any) -> Node:
    """A node of ``cpus`` cores that takes 110 pods."""
    return Node(row=row, name=f"n{row}", allocatable=((CPU, 1000 * cpus), (PODS, 110)), **more)


def job(
    jid: int,
    *,
    count: int = 1,
    minimum: int | None = None,
    queue: str = "a",
    cid: int = 0,
    priority: int = 0,
    created: float = 0.0,
) -> Job:
    return Job(
        jid=jid,
        namespace="ns",
        name=f"j{jid}",
        kind="Job",
        uid=f"u{jid}",
        queue=queue,
        created=created,
        priority=priority,
        groups=(Group(parent=-1, minimum=count if minimum is None else minimum),),
        roles=(Role(name="worker", cid=cid, first=0, count=count),),
    )
