"""Clusters for rules between pods: labels, terms, and what nodes a task may take."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.placement.candidates import choose, feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.messages.messages import Level
from shared.model.constraints import Constraints, PodTerm, Requirement, Selector, Spread
from shared.policy.model import PluginOption

HOST = "kubernetes.io/hostname"
ZONE = "zone"


def label(key: str, *values: str, operator: str = "In") -> Selector:
    return (Requirement(key, operator, values),)


APP = label("app", "web")


def near(selector: Selector | None = APP, key: str = ZONE, **fields: object) -> PodTerm:
    return PodTerm(topology_key=key, selector=selector, **fields)  # type: ignore[arg-type]


def far(selector: Selector | None = APP, key: str = ZONE, **fields: object) -> PodTerm:
    return near(selector, key, anti=True, **fields)


def asks(*terms: PodTerm, spreads: Sequence[Spread] = ()) -> dict[str, object]:
    """Rules of a class."""
    return {"constraints": Constraints(pod_terms=terms, spreads=tuple(spreads))}


def marked(**labels: str) -> dict[str, object]:
    """Members with labels."""
    return {"labels": tuple(sorted(labels.items()))}


def zones(*names: str, cpu: float = 8, **arguments: object) -> Cluster:
    """Nodes n0, n1, ... in these zones ("" = in none); ``arguments`` of predicates, with _ for ."""
    options = {name.replace("_", "."): value for name, value in arguments.items()}
    cluster = Cluster("gang", PluginOption("predicates", arguments=options))
    for i, zone in enumerate(names):
        cluster.node(f"n{i}", cpu=cpu, labels={ZONE: zone} if zone else {})
    return cluster


def task_of(session: Session, name: str) -> TaskInfo:
    return next(task for task in session.world.tasks() if task.name == name)


def open_to(session: Session, name: str) -> list[str]:
    """The nodes that a task may take."""
    world, task = session.world, task_of(session, name)
    if session.pre_predicate(task) is not None:
        return []
    mask = feasible(session, task).mask
    return [world.node(row).name for row in mask.nonzero()[0].tolist()]


def reasons(session: Session, name: str) -> dict[str, int]:
    return feasible(session, task_of(session, name)).reasons


def place_all(session: Session) -> WorldStatement:
    """Every pending task in turn onto the best node that takes it."""
    statement = WorldStatement(session)
    for task in list(session.world.tasks()):
        if task.status is not Status.PENDING or session.pre_predicate(task) is not None:
            continue
        chosen = choose(session, task, feasible(session, task).mask)
        if chosen is None:
            continue
        row, level = chosen
        put = statement.allocate if level in (Level.IDLE_OWN, Level.IDLE_OTHER) else None
        (put or statement.pipeline)(task, row)
    return statement


def where(session: Session) -> dict[str, str]:
    """Task -> node of all that have one."""
    world = session.world
    return {task.name: world.node(task.row).name for task in world.tasks() if task.row >= 0}
