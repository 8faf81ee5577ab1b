"""Replay with several shards: the real coordinator and workers, with a ledger in memory.

The recorded cluster is put into a ledger, and its running pods onto simulated kubelets. Then a
coordinator takes the leadership as after a restart, and goes on. Time is virtual; the seed
distributes the nodes to shards and delays every message.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from coordinator.cluster.events import ClusterEvent, EventKind
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, Listed, Phase
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.memory import KeptPod, Memory
from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.jobs.state import JobState
from coordinator.order.order import Order
from laboratory.replay.fill_ledger import by_names, elsewhere, fill, runs_elsewhere
from laboratory.replay.outcome import ReplayResult
from laboratory.replay.recorded import Recorded
from laboratory.replay.reported import result_of_log
from laboratory.simulation.history import Notes
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.virtual_time import CALM, START
from shard_worker.dialects.open_session import open_session
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.queue_totals import INQUEUE, waits_for_entry
from shard_worker.session_model.status import Status
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.reason import Reason
from shared.model.model import Job
from shared.policy.kai_usage import UsageClient
from shared.policy.model import Policy, PolicyError

QUIET = 5.0
"""The run ends after this many seconds of virtual time without changes."""
HALTED = 1.5
"""The same where the run stops at the end of one session: before promises lapse, for whose places
nobody makes way there."""
LONGEST = 120.0
"""Maximum seconds of virtual time."""
_SLICE = 0.5
_ON_NODE = (Status.BOUND, Status.RUNNING, Status.RELEASING, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ShardedRun:
    """The sharding of a replay."""

    shards: int
    mode: Mode
    seed: int
    one_session: bool = False
    """Stop where one session would: what is bound does not begin to run, what is evicted does not
    leave, and so nothing follows from it."""
    window: int = 16
    """Turns that are open at a time. With 1 the sequence of turns is Volcano's."""
    quiet: float = QUIET
    """Seconds of virtual time without changes after which the run ends. Idle services cost as much
    as busy ones: of a small case it is most of the time."""


def run_sharded(
    policy: Policy,
    recorded: Recorded,
    sharding: ShardedRun,
    *,
    name: str,
    step: Callable[[], None] = lambda: None,
    notes: Notes | None = None,
    began: float = 0.0,
) -> ReplayResult:
    """Run until nothing changes any more, or to the end of one session.

    ``step`` is called after each half second of virtual time; ``notes`` gets the history, for the
    checker; ``began``: seconds since 1970 when the cluster was recorded, where its objects name
    moments. Raises PolicyError if a plugin raises.
    """
    dealt = deal(recorded, sharding.seed)
    policy = _with_known_usage(policy)
    # What runs on nodes that are not recorded would be missing from the idle amounts of the others.
    countable = not runs_elsewhere(recorded)

    def core() -> Coordinator:
        walls = sharding.mode is Mode.HARD
        order = Order(
            open_session(policy), window=sharding.window, walls=walls, count_first=countable
        )
        order.picking.usage.measured(recorded.objects.queue_usage)
        order.contexts.usage = lambda: recorded.objects.usage
        dispatcher = Dispatcher(sharding.shards, turns_per_call=4)
        return Coordinator(order, dispatcher, mode=sharding.mode.value)

    kubelets = HaltedKubelets() if sharding.one_session else LocalCluster(grace=0.05)
    memory = _memory(dealt)
    kubelets.restore(memory)
    if notes is not None:
        notes.cluster_events(_before(dealt, memory))
    for node, used in by_names(dealt).items():
        kubelets.occupy(node, used)
    simulation = Simulation(
        core,
        policies=SeededPolicies(policy),
        kubelets=kubelets,
        mode=sharding.mode,
        seed=sharding.seed,
        network=CALM,
        notes=notes,
        binds_volumes=False,
        start=began or START,
    )
    filled = fill(simulation.ledger, dealt)
    at_once(simulation.ledger.release(COORDINATOR, filled.leader))
    tail = at_once(simulation.ledger.log_tail())
    _run(simulation, step, quiet_for=HALTED if sharding.one_session else sharding.quiet)
    order = simulation.core.order
    words = {jid: _word(simulation.core, state) for jid, state in order.jobs.items()}
    for jid, reason in words.items():
        if reason == Reason.PLUGIN_ERROR and (waits := why(simulation.core, order.jobs[jid])):
            raise PolicyError(waits.message)  # the run would say nothing about the policy
    dealt = replace(dealt, placed_jobs=[_admitted(s, order) for s in dealt.placed_jobs])
    return result_of_log(name, dealt, simulation.ledger, began=tail, policy=policy, words=words)


def _word(core: Coordinator, state: JobState) -> str:
    """Why the job waits. One that nothing was asked about, because it is known not to fit, is
    explained as the service explains it."""
    if state.reason is Reason.PENDING_EVALUATION and (waits := why(core, state)) is not None:
        return str(waits.reason)
    return str(state.reason)


def _with_known_usage(policy: Policy) -> Policy:
    """The policy with what queues used as it is recorded: no samples are taken meanwhile."""
    if policy.kai is None or policy.kai.usage is None:
        return policy
    settings = replace(policy.kai.usage, client=UsageClient.FAKE)
    return replace(policy, kai=replace(policy.kai, usage=settings))


def _run(simulation: Simulation, step: Callable[[], None], *, quiet_for: float) -> None:
    start = simulation.timeline.now
    until, quiet, length = start, 0.0, -1
    while until - start < LONGEST and quiet < quiet_for:
        until += _SLICE
        simulation.run(until=until)
        simulation.timeline.now = max(simulation.timeline.now, until)
        quiet = quiet + _SLICE if simulation.ledger.length == length else 0.0
        length = simulation.ledger.length
        step()


def deal(recorded: Recorded, seed: int) -> Recorded:
    """Shuffle the rows: a node's shard follows from its row."""
    rows = list(range(len(recorded.nodes)))
    random.Random(seed).shuffle(rows)
    new_row = {node.row: row for node, row in zip(recorded.nodes, rows, strict=True)}
    nodes = [replace(node, row=new_row[node.row]) for node in recorded.nodes]
    placed_jobs = [
        replace(
            placed_job,
            job=_lasting(placed_job.job),
            rows={tix: new_row[row] for tix, row in placed_job.rows.items()},
            nominated={tix: new_row[row] for tix, row in placed_job.nominated.items()},
        )
        for placed_job in recorded.placed_jobs
    ]
    return replace(
        recorded, nodes=sorted(nodes, key=lambda node: node.row), placed_jobs=placed_jobs
    )


def _admitted(placed_job: PlacedJob, order: Order) -> PlacedJob:
    """The job with its PodGroup's phase, which changes on admission."""
    job, state = placed_job.job, order.jobs.get(placed_job.job.jid)
    if not waits_for_entry(job.phase) or state is None or waits_for_entry(state.info.phase):
        return placed_job
    return replace(placed_job, job=replace(job, phase=INQUEUE))


def _lasting(job: Job) -> Job:
    """The job with pods that do not end, ignoring simulated durations."""
    return replace(job, roles=tuple(replace(role, duration=None) for role in job.roles))


def _memory(recorded: Recorded) -> Memory:
    """The simulated kubelets' state: recorded running tasks run until they are stopped."""
    names = {node.row: node.name for node in (*recorded.nodes, elsewhere(recorded))}
    nowhere = elsewhere(recorded).row
    pods = {
        f"{placed_job.job.jid}.{tix}": KeptPod(
            uid=placed_job.job.uid,
            node=names[placed_job.rows.get(tix, nowhere)],
            duration=None,
            bound=0.0,
            failing=False,
            started=status is not Status.BOUND,
            deleted=0.0 if status is Status.RELEASING else None,
        )
        for placed_job in recorded.placed_jobs
        if not placed_job.foreign
        for tix, status in placed_job.states.items()
        if status in _ON_NODE
    }
    return Memory(pods=pods)


def _before(recorded: Recorded, memory: Memory) -> list[ClusterEvent]:
    """How the recorded pods came to their nodes, and which have ended: a history has all of it."""
    pods = [(task, pod.uid, pod.node, pod.started) for task, pod in memory.pods.items()]
    ended = list(_succeeded(recorded))
    bound = _event("bind", [*pods, *ended], answers=True)
    started = [pod for pod in pods if pod[3]]
    return [bound, _event("start", [*started, *ended]), _event("succeeded", ended)]


_Pod = tuple[str, str, str, bool]
"""(task, uid, node, started)"""


def _succeeded(recorded: Recorded) -> Iterator[_Pod]:
    names = {node.row: node.name for node in recorded.nodes}
    nowhere = elsewhere(recorded).name
    for placed_job in recorded.placed_jobs:
        for tix, status in () if placed_job.foreign else placed_job.states.items():
            if status is Status.SUCCEEDED:
                node = names.get(placed_job.rows.get(tix, -1), nowhere)
                yield f"{placed_job.job.jid}.{tix}", placed_job.job.uid, node, True


def _event(kind: EventKind, pods: Sequence[_Pod], *, answers: bool = False) -> ClusterEvent:
    tasks, uids, nodes = ([str(pod[i]) for pod in pods] for i in range(3))
    return ClusterEvent(0.0, kind, tasks, nodes, uids, [BindAnswer.OK.name] * len(tasks) * answers)


class HaltedKubelets(LocalCluster):
    """Kubelets on which time stands still: no pod starts, and none ends."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[str] = set()
        """Tasks that were bound and would begin to run."""

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        bound = super().bind(requests, now)
        answers_of_tasks = zip(requests.tasks, bound.answers, strict=True)
        self._waiting.update(task for task, answer in answers_of_tasks if answer == BindAnswer.OK)
        return bound

    def advance(self, now: float) -> None:
        pass

    def next_due(self) -> float | None:
        return None

    def _listed(
        self, tasks: list[str], token: str, *, every: bool = False, highest: int = -1
    ) -> Listed:
        listed = super()._listed(tasks, token, every=every, highest=highest)
        phases = [
            int(Phase.BOUND) if phase == Phase.RUNNING and task in self._waiting else phase
            for task, phase in zip(listed.tasks, listed.phases, strict=True)
        ]
        return replace(listed, phases=phases)
