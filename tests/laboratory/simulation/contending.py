"""Seeded runs with a policy that has every action: a small cluster, and what users submit."""

from __future__ import annotations

from typing import Any

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from laboratory.checker.check import check_lines
from laboratory.checker.report.report import CheckReport
from laboratory.scenarios.workload import node
from laboratory.simulation.history import Notes
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.virtual_time import CALM, Network
from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shared.messages.messages import HOLDING, TaskState
from shared.policy.model import Policy
from tests.builders.objects import DURATION, Item, container, pod, pod_group, simple_job
from tests.shard_worker.turns.sessions import EVERYTHING

HOSTNAME = "kubernetes.io/hostname"


def named_node(number: int) -> Item:
    node_item: Item = node(number)
    node_item["metadata"]["labels"] = {HOSTNAME: f"n{number}"}
    return node_item


def job(
    name: str,
    replicas: int,
    *,
    seconds: float = 1.0,
    cpu: str = "1",
    priority: str = "",
    labels: dict[str, str] | None = None,
    affinity: Item | None = None,
    **spec: Any,
) -> Item:
    """``cpu``: "" asks for nothing."""
    pod_spec: Item = {"affinity": affinity} if affinity else {}
    if not cpu:
        pod_spec["containers"] = [{"name": "c", "resources": {"requests": {}}}]
    if priority:
        spec["priorityClassName"] = priority
    return simple_job(
        name,
        replicas,
        role="t",
        seconds=seconds,
        cpu=cpu,
        labels=labels,
        pod_spec=pod_spec,
        **({"queue": "default"} | spec),
    )


class Run:
    """A simulation, and what a test asks of it."""

    def __init__(
        self,
        *,
        nodes: int = 2,
        shards: int = 2,
        seed: int = 1,
        mode: Mode = Mode.SOFT,
        policy: Policy = EVERYTHING,
        network: Network = CALM,
        setup: list[Item] | None = None,
        grace: float = 0.05,
        evicts: bool = False,
        refused: float = 0.0,
    ) -> None:
        """``refused``: the share of binds that nodes refuse."""

        def core() -> Coordinator:
            order = Order(open_session(policy), window=16, walls=mode is Mode.HARD)
            return Coordinator(order, Dispatcher(shards, turns_per_call=4), mode=mode.value)

        kubelets = LocalCluster(grace=grace)
        faults = Faults(refuse=refused)
        self.notes = Notes()
        self.sim = Simulation(
            core,
            policies=SeededPolicies(policy),
            kubelets=FaultyCluster(kubelets, faults, seed) if refused else kubelets,
            mode=mode,
            seed=seed,
            network=network,
            notes=self.notes,
            evicts=evicts,
        )
        self.sim.submit([*map(named_node, range(nodes)), *(setup or [])])

    def submit(self, *items: Item, at: float = 0.0) -> None:
        self.sim.submit(list(items), at=at)

    def until(self, seconds: float) -> None:
        """Run so many seconds of virtual time, counted from the start (1000)."""
        self.sim.run(until=1000.0 + seconds)

    def end(self) -> CheckReport:
        """Run to the end: everything is done, all books agree, and no promise was broken."""
        self.sim.run(until=1_200.0)
        self.sim.core.validate()
        report = check_lines(self.notes.lines, name="run", closed=True)
        assert not report.violations, report.violations
        assert self.sim.over, self.sim.core.status()
        return report

    def state(self, name: str) -> list[TaskState]:
        """The states of a job's tasks as the coordinator has them."""
        for state in self.sim.core.order.jobs.values():
            if state.job.name == name:
                return [TaskState(s) for s in state.states]
        raise KeyError(name)

    def running(self, name: str) -> int:
        held = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)
        return sum(state in held for state in self.state(name))

    def rows(self, name: str) -> list[int]:
        """The nodes of a job's tasks that hold one."""
        for state in self.sim.core.order.jobs.values():
            if state.job.name == name:
                return [r for r, s in zip(state.rows, state.states, strict=True) if s in HOLDING]
        raise KeyError(name)

    def reason(self, name: str) -> str:
        return next(s.reason for s in self.sim.core.order.jobs.values() if s.job.name == name)

    @property
    def evicted(self) -> int:
        return sum(self.sim.core.tally.evicted.values())


def group(
    name: str, members: int, *, needs: Item, seconds: float, annotations: Item | None = None
) -> list[Item]:
    """A PodGroup that says what it needs at least, and its pods of one core."""
    pods = [
        pod(f"{name}-{i}", group=name, containers=[container(memory="")]) for i in range(members)
    ]
    for member in pods:
        member["metadata"]["annotations"] |= {DURATION: str(seconds)} | (annotations or {})
    return [pod_group(name, minMember=members, minResources=needs), *pods]
