"""A worker's session serves turn after turn: each ends as in a session of its own, whatever nodes,
queues and jobs went through in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.registry import PLUGINS
from shard_worker.turns.session_turn import SessionPlaced, SessionTurns
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutPartition
from shared.messages.messages import ALLOCATE, Rows, TaskState
from shared.model.constraints import Constraints, PodTerm, Requirement, Toleration
from shared.model.model import Job, Node, TaskClass
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.units.slots import CPU, PODS
from tests.examples import examples
from tests.shard_worker.placement.support import cls, cpus, intake, node, put_node, record, view_of
from tests.shard_worker.turns.sessions import EVERYTHING, B, Books

APART = Constraints(
    pod_terms=(PodTerm("rack", selector=(Requirement("app", "In", ("x",)),), anti=True),)
)
CLASSES = {
    0: cls(1),
    1: cls(2),
    2: TaskClass(requests=((PODS, 1),)),
    3: cls(1, selector=(("disk", "ssd"),)),
    4: cls(1, tolerations=(Toleration("busy", "Exists", "", ""),)),
    5: cls(1, constraints=APART),
}
NODES = 6
ALL = [{"name": name} for name in PLUGINS if name not in ("extender", "proportion")]
POLICIES = (
    EVERYTHING,
    parse_policy({"actions": ", ".join(EVERYTHING.actions), "tiers": [{"plugins": ALL}]}),
)


@dataclass(frozen=True)
class Placing:
    """A turn. ``stays``: what it did comes to be."""

    cid: int
    tasks: int
    spare: int
    priority: int
    queue: str
    action: str
    in_rack: bool
    stays: bool


@dataclass(frozen=True)
class NodeChange:
    row: int
    cores: int
    rack: str
    disk: bool
    cordoned: bool
    own: bool


@dataclass(frozen=True)
class Usage:
    """Others take room on a node, or give it back."""

    row: int
    cores: int


@dataclass(frozen=True)
class Weight:
    queue: str
    weight: int


Happening = Placing | NodeChange | Usage | Weight

queues = st.sampled_from(["default", "other"])
rows = st.integers(0, NODES - 1)
placing = st.builds(
    Placing,
    cid=st.sampled_from([*CLASSES]),
    tasks=st.integers(1, 4),
    spare=st.integers(0, 2),
    priority=st.integers(0, 2),
    queue=queues,
    action=st.sampled_from(["allocate", "allocate", "backfill", "preempt", "reclaim"]),
    in_rack=st.booleans(),
    stays=st.booleans(),
)
change = st.builds(
    NodeChange,
    row=rows,
    cores=st.integers(1, 6),
    rack=st.sampled_from(["", "a", "b"]),
    disk=st.booleans(),
    cordoned=st.booleans(),
    own=st.booleans(),
)
events: st.SearchStrategy[Happening] = st.one_of(
    placing,
    placing,
    change,
    st.builds(Usage, row=rows, cores=st.integers(0, 3)),
    st.builds(Weight, queue=queues, weight=st.integers(1, 5)),
)


@dataclass
class Stage:
    """One view, over which a kept session and a new one place the same turns."""

    policy: Policy
    books: Books = field(default_factory=lambda: Books(CLASSES))
    other_cores: dict[int, int] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        self.books.queue("other")
        self.nodes: list[Node] = [
            node(row, cores=4, labels={"rack": "ab"[row % 2]}) for row in range(NODES)
        ]
        self.own = set(range(NODES // 2))
        records = [record(allocatable=cpus(4)) for _ in range(NODES)]
        self.view = view_of(records, own=self.own, classes=CLASSES, nodes=self.nodes)
        self.books.total = {CPU: 4000 * NODES, PODS: 110 * NODES}
        self.kept = self.turns(lambda: open_session(self.policy), keeps=True)

    def turns(self, opening: Callable[[], Any], *, keeps: bool) -> SessionTurns:
        kept = opening() if keeps else None
        return SessionTurns(opening, view=self.view, mode=Mode.SOFT, kept=kept)

    def write(self, row: int) -> None:
        """The node's record as the ledger has it by now."""
        self.version += 1
        used: dict[int, int] = {CPU: 1000 * self.other_cores.get(row, 0)}
        for on, cid in self.books.used():
            for slot, amount in CLASSES[cid].requests if on == row else ():
                used[slot] = used.get(slot, 0) + amount
        listed = self.nodes[row]
        fresh = record(
            version=self.version, spec=listed.spec, allocatable=dict(listed.allocatable), used=used
        )
        self.view.set_rows(Rows([row], [fresh]))

    def happen(self, event_: Happening) -> None:
        match event_:
            case NodeChange(row, cores, rack, disk, cordoned, own):
                labels = {"rack": rack} if rack else {}
                labels |= {"disk": "ssd"} if disk else {}
                before = self.nodes[row]
                changed = replace(
                    before,
                    allocatable=tuple(sorted(cpus(cores).items())),
                    labels=labels,
                    unschedulable=cordoned,
                    spec=before.spec + 1,
                )
                self.nodes[row] = changed
                (self.own.add if own else self.own.discard)(row)
                self.version += 1
                partition = PutPartition(revision=self.version, shards={0: sorted(self.own)})
                self.view.apply([intake([put_node(changed), partition])])
                self.write(row)
            case Usage(row, cores):
                self.other_cores[row] = cores
                self.write(row)
            case Weight(name, weight):
                self.books.queues[name] = replace(self.books.queues[name], weight=weight)
            case Placing():
                self.place(event_)

    def place(self, drawn: Placing) -> None:
        job = self.job(drawn)
        running = [each for each in self.books.jobs.values() if each is not job]
        turn = self.books.turn(job, drawn.action, running)
        fresh = self.turns(lambda: open_session(self.policy), keeps=False)
        fresh._memory = dict(self.kept._memory)
        before = [column.tolist() for kind in self.view.columns.views for column in kind]
        results = []
        for each in (self.kept, fresh):
            placed = each.place(turn, now=5.0)
            results.append(described(placed))
            placed.statement.rollback()
        assert results[0] == results[1]
        assert before == [column.tolist() for kind in self.view.columns.views for column in kind]
        event(f"{drawn.action} does anything: {not placed.empty}")
        if drawn.stays:
            self.settle(job, placed)

    def job(self, drawn: Placing) -> Job:
        minimum = max(drawn.tasks - drawn.spare, 1)
        job = self.books.job(
            drawn.cid,
            [-1] * drawn.tasks,
            minimum=minimum,
            priority=drawn.priority,
            queue=drawn.queue,
            topology_key="rack" if drawn.in_rack else "",
        )
        roles = tuple(
            replace(role, labels=(("app", "xy"[drawn.priority % 2]),)) for role in job.roles
        )
        job = self.books.jobs[job.jid] = replace(job, roles=roles)
        return job

    def settle(self, job: Job, placed: SessionPlaced) -> None:
        touched = set()
        for run in placed.evictions:
            for tix, row in zip(run.tasks, run.rows, strict=True):
                self.books.states[run.jid][tix] = TaskState.FAILED
                self.books.rows[run.jid][tix] = -1
                touched.add(row)
        for place in (*placed.core, *placed.tail):
            if place.kind == ALLOCATE:
                self.books.states[job.jid][place.task] = B
                self.books.rows[job.jid][place.task] = place.row
                touched.add(place.row)
        for row in sorted(touched):
            self.write(row)


def described(placed: SessionPlaced) -> object:
    return (
        placed.core,
        placed.tail,
        placed.evictions,
        placed.reason,
        placed.reasons,
        placed.failed_role,
        placed.displaced,
        placed.ungated,
        placed.domains,
    )


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(POLICIES), st.lists(events, min_size=3, max_size=14))
def test_a_kept_session_ends_a_turn_as_a_new_one_does(
    policy: Policy, happening: list[Happening]
) -> None:
    stage = Stage(policy)
    for each in happening:
        stage.happen(each)
