"""The same cluster decided with several shards: the real coordinator, workers and ledger's double.

Everything recorded is put into a ledger, and the pods that run onto simulated kubelets. Then a
coordinator takes the seat, as after a restart, and goes on. Time is virtual; the seed deals the
nodes to the shards and delays every message.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator.cluster.local import LocalCluster
from coordinator.cluster.memory import KeptPod, Memory
from coordinator.core import Coordinator
from coordinator.dispatch import Dispatcher
from coordinator.order import Order
from coordinator.simulation.run import Simulation
from coordinator.simulation.timeline import CALM
from coordinator.what_if.filling import fill
from coordinator.what_if.outcome import Result
from coordinator.what_if.recorded import Recorded
from coordinator.what_if.told import result_of_log
from shard_worker.session import open_session
from shard_worker.task_class import Mode
from shard_worker.tasks import Status
from shard_worker.world_building import Standing
from shared.ledger.protocol import COORDINATOR
from shared.ledger.synchronous import at_once
from shared.model import Job
from shared.policy import Policy

QUIET = 5.0
"""Seconds of virtual time in which nothing changes: then it is over."""
LONGEST = 120.0
"""Seconds of virtual time, whatever changes still."""
_SLICE = 0.5
_ON_NODE = (Status.BOUND, Status.RUNNING, Status.RELEASING, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the cluster is to be cut."""

    shards: int
    mode: Mode
    seed: int


def run_sharded(
    policy: Policy,
    recorded: Recorded,
    wanted: Wanted,
    *,
    name: str,
    step: Callable[[], None] = lambda: None,
) -> Result:
    """Run until nothing changes any more. ``step`` is called for each half second that passed."""
    dealt = deal(recorded, wanted.seed)

    def core() -> Coordinator:
        order = Order(open_session(policy), window=16, walls=wanted.mode is Mode.HARD)
        dispatcher = Dispatcher(wanted.shards, turns_per_call=4)
        return Coordinator(order, dispatcher, mode=wanted.mode.value)

    kubelets = LocalCluster(grace=0.05)
    kubelets.restore(_memory(dealt))
    simulation = Simulation(
        core,
        session=lambda: open_session(policy),
        kubelets=kubelets,
        mode=wanted.mode,
        seed=wanted.seed,
        network=CALM,
    )
    filled = fill(simulation.ledger, dealt)
    at_once(simulation.ledger.release(COORDINATOR, filled.leader))
    began = at_once(simulation.ledger.log_tail())
    _run(simulation, step)
    order = simulation.core.order
    words = {jid: state.reason for jid, state in order.jobs.items()}
    dealt = replace(dealt, standings=[_let_in(s, order) for s in dealt.standings])
    return result_of_log(name, dealt, simulation.ledger, began=began, policy=policy, words=words)


def _run(simulation: Simulation, step: Callable[[], None]) -> None:
    start = simulation.timeline.now
    until, quiet, length = start, 0.0, -1
    while until - start < LONGEST and quiet < QUIET:
        until += _SLICE
        simulation.run(until=until)
        simulation.timeline.now = max(simulation.timeline.now, until)
        quiet = quiet + _SLICE if simulation.ledger.length == length else 0.0
        length = simulation.ledger.length
        step()


def deal(recorded: Recorded, seed: int) -> Recorded:
    """The same with rows in another order: which shard a node falls to follows from its row."""
    rows = list(range(len(recorded.nodes)))
    random.Random(seed).shuffle(rows)
    moved = {node.row: row for node, row in zip(recorded.nodes, rows, strict=True)}
    nodes = [replace(node, row=moved[node.row]) for node in recorded.nodes]
    standings = [
        replace(
            standing,
            job=_lasting(standing.job),
            rows={tix: moved[row] for tix, row in standing.rows.items()},
            nominated={tix: moved[row] for tix, row in standing.nominated.items()},
        )
        for standing in recorded.standings
    ]
    return replace(recorded, nodes=sorted(nodes, key=lambda node: node.row), standings=standings)


def _let_in(standing: Standing, order: Order) -> Standing:
    """The phase of a PodGroup moves when it passes the entry."""
    job = standing.job
    if job.phase not in ("", "Pending") or job.jid in order.entry.waiting:
        return standing
    return replace(standing, job=replace(job, phase="Inqueue"))


def _lasting(job: Job) -> Job:
    """Its pods do not end by themselves, whatever a simulated cluster was told of them."""
    return replace(job, roles=tuple(replace(role, duration=None) for role in job.roles))


def _memory(recorded: Recorded) -> Memory:
    """What the kubelets know: what runs goes on until it is told to stop."""
    names = {node.row: node.name for node in recorded.nodes}
    pods = {
        f"{standing.job.jid}.{tix}": KeptPod(
            uid=standing.job.uid,
            node=names[standing.rows[tix]],
            duration=None,
            bound=0.0,
            failing=False,
            started=status is not Status.BOUND,
            deleted=0.0 if status is Status.RELEASING else None,
        )
        for standing in recorded.standings
        if not standing.foreign
        for tix, status in standing.states.items()
        if status in _ON_NODE and tix in standing.rows
    }
    return Memory(pods=pods)
