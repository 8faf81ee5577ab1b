"""A small cluster to try a policy, or your own plugin, on: no service, no ledger, one session.

    cluster = Cluster("gang", Mine)
    cluster.node("a", cpu=4)
    cluster.node("b", cpu=4, labels={"disk": "ssd"})
    cluster.job("train", tasks=2, cpu=1)
    assert cluster.run().binds == {"default/train-0": "b", "default/train-1": "b"}

Amounts are written as people do: ``cpu=0.5`` is half a core, ``memory=2`` are 2 GiB, the rest by
its name (``resources={"nvidia.com/gpu": 8}``). Times are seconds; ``now`` is the session's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Plugin, Session
from shard_worker.session_model.full_world import take_up
from shard_worker.session_model.job import SessionJob, open_session_job
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.session_model.workload import QueueInfo, add
from shard_worker.session_model.world import World
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import IntakeOp, PutNode, PutPartition
from shared.ledger.entries.log import IntakeEntry
from shared.ledger.records import RELEASING, USED, WIDTH, pack_node, pack_thing
from shared.messages.messages import Epoch, Group, Rows
from shared.model.constraints import Taint
from shared.model.model import Job, Node, Queue, Requests, Role, TaskClass
from shared.model.named_devices import DEVICES, written_devices
from shared.model.node_devices import declared
from shared.model.topology import HyperNode
from shared.policy.model import PluginOption, Policy
from shared.records.specs import encode_node
from shared.units.slots import Slots
from shared.units.things import Things

GIB = 2**30
OWN, OTHER = 0, 1

Maker = Callable[[PluginOption], Plugin]
Named = str | PluginOption | type
"""A plugin of a policy: its name, its name with arguments, or its class."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a session; tasks by ``namespace/name``, nodes by name."""

    binds: dict[str, str]
    pipelined: dict[str, str]
    evicted: list[str]
    phases: dict[str, str] = field(default_factory=dict)
    """Phase of each job's PodGroup."""
    devices: dict[str, Things] = field(default_factory=dict)
    """Devices of their nodes that bound tasks take, for tasks that take any."""


class Cluster:
    """Built by calls, opened once. Everything is in queue ``default`` unless said."""

    def __init__(
        self,
        *plugins: Named,
        tiers: Sequence[Sequence[Named]] = (),
        actions: Sequence[str] = ("allocate",),
        arguments: Mapping[str, dict[str, object]] | None = None,
        makers: Mapping[str, Maker] | None = None,
        mode: Mode = Mode.NONE,
        now: float = 0.0,
    ) -> None:
        """``plugins`` are one tier; ``tiers`` gives several. ``arguments``: of actions, by name.
        ``makers``: classes of your own plugins that are named with arguments."""
        self.now = now
        self.mode = mode
        self.world = World(mode=mode, now=now)
        self.slots = Slots()
        self._makers: dict[str, Maker] = dict(makers or {})
        named = [list(plugins), *map(list, tiers)]
        self.policy = Policy(
            actions=tuple(actions),
            tiers=tuple(tuple(map(self._option, tier)) for tier in named if tier),
            configurations=dict(arguments or {}),
        )
        self._nodes: list[tuple[Node, bool]] = []
        self._classes: dict[TaskClass, int] = {}
        self._jobs: list[tuple[Job, list[Status], list[str | None]]] = []
        self._devices: dict[int, Sequence[Things]] = {}
        self.hyper_nodes: list[HyperNode] = []

    def _option(self, named: Named) -> PluginOption:
        if isinstance(named, PluginOption):
            return named
        if isinstance(named, str):
            return PluginOption(named)
        name: str = named.name  # type: ignore[attr-defined]
        self._makers[name] = named
        return PluginOption(name)

    # --- what there is ------------------------------------------------------------------------

    def node(
        self,
        name: str,
        *,
        cpu: float = 8,
        memory: float = 32,
        pods: int = 110,
        own: bool = True,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        unschedulable: bool = False,
        resources: Mapping[str, float] | None = None,
        annotations: Mapping[str, str] | None = None,
        devices: Mapping[str, int] | None = None,
    ) -> Node:
        """``own``: a node of the shard whose session it is. ``devices``: what it has of each, as
        its annotation ``quadrant.dev/devices`` says it."""
        marks = dict(annotations or {})
        if devices:
            named = tuple((name, (amount,)) for name, amount in devices.items())
            marks[DEVICES] = written_devices(named)
        node = Node(
            row=len(self._nodes),
            name=name,
            allocatable=self.requests(cpu=cpu, memory=memory, pods=pods, **(resources or {})),
            labels={"kubernetes.io/hostname": name, **(labels or {})},
            taints=tuple(taints),
            unschedulable=unschedulable,
            spec=1,
            annotations=tuple(sorted(marks.items())),
        )
        self._nodes.append((node, own))
        add(self.world.total, node.allocatable, 1)
        return node

    def queue(self, name: str = "default", **fields: Any) -> Queue:
        """``parent`` by name; ``capability``, ``deserved``, ``guarantee``: {resource: amount}."""
        for limit in ("capability", "deserved", "guarantee"):
            if limit in fields:
                fields[limit] = self.requests(**fields[limit])
        if "parent" in fields:
            fields["parent"] = self.queue_named(fields["parent"]).queue.qid
        queue = Queue(qid=len(self.world.queues), name=name, **fields)
        self.world.queues[queue.qid] = QueueInfo(queue=queue)
        return queue

    def queue_named(self, name: str) -> QueueInfo:
        for info in self.world.queues.values():
            if info.queue.name == name:
                return info
        raise KeyError(f"queue {name!r}: not there; call queue({name!r}) first")

    def job(
        self,
        name: str,
        *,
        queue: str = "default",
        tasks: int = 1,
        minimum: int | None = None,
        on: Sequence[str | None] = (),
        devices: Sequence[Things] = (),
        status: Status = Status.RUNNING,
        task_priority: int = 1,
        rules: Mapping[str, Any] | None = None,
        members: Mapping[str, Any] | None = None,
        namespace: str = "default",
        cpu: float = 1,
        memory: float = 0,
        roles: Sequence[Role] = (),
        resources: Mapping[str, float] | None = None,
        **fields: Any,
    ) -> Job:
        """A job of like tasks. ``on``: the nodes of the first of them, which are in ``status``; the
        others wait. ``devices``: what those take of devices of their nodes. ``minimum``: all of
        them by default. ``rules``: further fields of the class, ``members`` of the role, ``fields``
        of the job."""
        asks = self.requests(cpu=cpu, memory=memory, pods=1, **(resources or {}))
        cid = self.class_of(TaskClass(requests=asks, **(rules or {})))
        role = Role("task", cid, 0, tasks, priority=task_priority, **(members or {}))
        names = tuple(f"{name}-{i}" for i in range(tasks))
        listed = tuple(roles) or (replace(role, names=names),)
        total = sum(r.count for r in listed)
        job = Job(
            jid=len(self._jobs),
            namespace=namespace,
            name=name,
            kind=fields.pop("kind", "PodGroup"),
            uid=name,
            queue=queue,
            created=fields.pop("created", float(len(self._jobs))),
            groups=fields.pop("groups", (Group(-1, total if minimum is None else minimum),)),
            roles=listed,
            phase=fields.pop("phase", "Inqueue"),
            **fields,
        )
        placed: list[str | None] = [*on, *[None] * (total - len(on))]
        states = [Status.PENDING if node is None else status for node in placed]
        self._jobs.append((job, states, placed))
        self._devices[job.jid] = devices
        return job

    def hyper_node(self, hyper: HyperNode) -> None:
        self.hyper_nodes.append(hyper)

    def requests(self, **amounts: float) -> Requests:
        """Amounts by resource name, in the units of slots."""
        by_slot = {}
        for name, amount in amounts.items():
            unit = {"cpu": 1000, "memory": GIB, "pods": 1}.get(name, 1000)
            by_slot[self.slots.intern(name)] = round(amount * unit)
        return tuple(sorted((slot, amount) for slot, amount in by_slot.items() if amount))

    def class_of(self, cls: TaskClass) -> int:
        """The number of a task class; equal ones have one."""
        return self._classes.setdefault(cls, len(self._classes))

    # --- the session --------------------------------------------------------------------------

    def again(self) -> Cluster:
        """The same objects in a new cluster, on which no session has run."""
        return deepcopy(self)

    def open(self) -> Session:
        """The session over the world as it was described."""
        world = self.world
        if not world.queues:
            self.queue()
        rows = {node.name: node.row for node, _ in self._nodes}
        classes = {cid: cls for cls, cid in self._classes.items()}
        queues = {info.queue.name: info for info in world.queues.values()}
        jobs = [
            open_session_job(
                job,
                queue=queues.get(job.queue),
                classes=classes,
                states=states,
                rows=[-1 if node is None else rows[node] for node in on],
            )
            for job, states, on in self._jobs
        ]
        for session_job in jobs:
            for tix, devices in enumerate(self._devices.get(session_job.job.jid, ())):
                session_job.tasks[tix].devices = devices
        world.view = self._view(jobs)
        for job in jobs:
            world.add_job(job)
            if job.queue is not None:
                take_up(world, job.queue, job)
        self._grow_tree(world)
        session = open_session(self.policy, makers=self._makers)
        session.enter(world)
        return session

    def _grow_tree(self, world: World) -> None:
        if self.hyper_nodes:
            from shard_worker.view.hyper_tree import build_tree

            world.tree = build_tree(self.hyper_nodes, world.view.nodes)

    def run(self) -> Result:
        """Open the session, run the policy's actions in order, and tell what came of it."""
        from shard_worker.dialects.volcano.actions.run import run_actions

        session = self.open()
        run_actions(session)
        return self.result(session)

    def result(self, session: Session) -> Result:
        """The operations that a session has committed so far, by name."""
        world, operations = session.world, session.committed
        name = [node.name for node, _ in self._nodes]
        return Result(
            binds={op.task.key: name[op.row] for op in operations if op.kind is OpKind.ALLOCATE},
            pipelined={
                task.key: name[task.row]
                for task in world.tasks()
                if task.status is Status.PIPELINED
            },
            evicted=sorted(op.task.key for op in operations if op.kind is OpKind.EVICT),
            phases={job.job.key: job.phase for job in world.session_jobs()},
            devices={
                op.task.key: op.task.devices
                for op in operations
                if op.kind is OpKind.ALLOCATE and op.task.devices
            },
        )

    def _view(self, jobs: Sequence[SessionJob]) -> View:
        used: dict[int, dict[int, int]] = {}
        leaving: dict[int, dict[int, int]] = {}
        for job in jobs:
            for task in job.tasks:
                if task.row >= 0 and task.status & (OCCUPYING | Status.RELEASING):
                    add(used.setdefault(task.row, {}), task.requests, 1)
                    if task.status is Status.RELEASING:
                        add(leaving.setdefault(task.row, {}), task.requests, 1)
        ops: list[IntakeOp] = []
        for cls, cid in self._classes.items():
            ops.append(put_class(cid, cls))
        records = []
        for node, _ in self._nodes:
            ops.append(PutNode(node.row, list(node.allocatable), 1, encode_node(node)))
            records.append(self._record(node, used.get(node.row, {}), leaving.get(node.row, {})))
        shards: dict[int, list[int]] = {OWN: [], OTHER: []}
        for node, is_own in self._nodes:
            shards[OWN if is_own else OTHER].append(node.row)
        ops.append(PutPartition(revision=1, shards=shards))
        view = View(shard=OWN)
        names = self.slots.names
        offered = {node.row: declared(node, names) for node, _ in self._nodes}
        fresh = Rows(list(range(len(records))), records, _things(jobs, offered))
        view.apply([IntakeEntry("1-0", "intake", Epoch(1, "harness"), 1, ops, fresh)])
        view.slot_names = list(self.slots.names)
        return view

    def _record(self, node: Node, used: dict[int, int], leaving: dict[int, int]) -> bytes:
        parts: tuple[dict[int, int], ...] = (dict(node.allocatable), used, {}, leaving, {})
        width = len(self.slots)
        return pack_node(1, 1, [part.get(s, 0) for s in range(width) for part in parts])


def _things(
    jobs: Sequence[SessionJob], offered: Mapping[int, Things]
) -> list[tuple[int, str, bytes]]:
    """The records of the named things that nodes (by row) declare and that tasks have."""
    amounts: dict[tuple[int, str], list[int]] = {
        (row, name): [n for amount in held for n in (amount, *[0] * (WIDTH - 1))]
        for row, things in offered.items()
        for name, held in things
    }
    for job in jobs:
        for task in job.tasks:
            if task.row >= 0 and task.status & (OCCUPYING | Status.RELEASING):
                for name, vector in task.taking.things:
                    flat = amounts.setdefault((task.row, name), [0] * WIDTH * len(vector))
                    for dimension, amount in enumerate(vector):
                        flat[WIDTH * dimension + USED] += amount
                        if task.status is Status.RELEASING:
                            flat[WIDTH * dimension + RELEASING] += amount
    return [(row, name, pack_thing(1, flat)) for (row, name), flat in amounts.items()]
