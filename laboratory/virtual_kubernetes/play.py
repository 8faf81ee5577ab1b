"""One seed of the service with its Kubernetes driver: built, run, and judged."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import PACE_SECONDS, Dispatcher
from coordinator.order.order import Order
from coordinator.service.bind_loop import CONSUMER
from laboratory.checker.check import check_lines
from laboratory.checker.report.report import CheckReport
from laboratory.simulation.history import Notes
from laboratory.simulation.invariants import (
    Broken,
    crashed,
    final_violations,
    run_violations,
)
from laboratory.simulation.leader import FollowedCluster, settled
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.run import Simulation
from laboratory.simulation.scenario import Fault, FaultKind
from laboratory.simulation.virtual_time import START, Timeline
from laboratory.virtual_kubernetes.api_process import ApiProcess
from laboratory.virtual_kubernetes.followed import FollowedKubernetes
from laboratory.virtual_kubernetes.kubelets import SeededKubelets
from laboratory.virtual_kubernetes.load import (
    FIRST_SECONDS,
    LAST_SECONDS,
    PODS,
    Ask,
    draw_load,
    ending,
)
from laboratory.virtual_kubernetes.server_faults import (
    DELAYED_SECONDS,
    ServerFault,
    ServerFaultKind,
    draw_faults,
)
from shard_worker.view.mode import Mode
from shared.ledger.memory.synchronous import at_once
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY

SHARDS = 2
STEP_SECONDS = 0.5
"""Interval of looks whether a run is over."""
AGAIN_SECONDS = 0.2
"""Pause before users ask again who were not answered."""
CALM_SECONDS = 45.0
"""After the last fault everything that has room runs and ends within this time: a Lease may have to
run out, and reflectors pause for up to half a minute."""
ENDED_SECONDS = 45.0
"""Within it everything that was deleted is gone from the ledger too."""
_ENDED = ("Succeeded", "Failed")
_OF_ROLES = {
    FaultKind.WORKER_KILLED: 2,
    FaultKind.WORKER_PAUSED: 2,
    FaultKind.LEADER_KILLED: 3,
    FaultKind.LEADER_PAUSED: 2,
    FaultKind.STANDBY_KILLED: 1,
    FaultKind.SERVER_RESTARTED: 1,
    FaultKind.SERVER_AWAY: 1,
}


@dataclass(slots=True)
class KubernetesPlayed:
    """The result of one seed."""

    seed: int
    simulation: Simulation
    api: ApiProcess
    notes: Notes
    report: CheckReport | None = None
    """None if the run aborted."""
    broken: list[Broken] = field(default_factory=list)


class _Play:
    def __init__(self, seed: int) -> None:
        self.seed, self.notes = seed, Notes()
        draw = Random(f"kubernetes {seed}")
        self._load = draw_load(draw)
        self._mode = draw.choice([Mode.NONE, Mode.SOFT])
        self._faults = draw_faults(draw, first=FIRST_SECONDS, last=LAST_SECONDS)
        self._role_faults = _role_faults(draw)
        self._open: deque[Ask] = deque()
        """What users have asked and nobody has answered."""
        self.waited: list[str] = []
        """Pods that had not ended when everything was taken away, and should have."""
        policy = self._load.policy
        parsed = parse_policy(policy) if policy else DEFAULT_POLICY
        self._policies = SeededPolicies(parsed)
        self.simulation = Simulation(
            self._core,
            policies=self._policies,
            kubelets=LocalCluster(),
            mode=self._mode,
            seed=seed,
            standby=draw.random() < 0.5,
            notes=self.notes,
            followed=self._followed,
        )
        start_seconds = draw.choice([0.0, 0.3])
        self._kubelets = SeededKubelets(
            self.api, self._load.nodes, start_seconds=start_seconds, budgets=self._load.budget
        )
        self._schedule()

    def _core(self) -> Coordinator:
        order = Order(self._policies.session(), window=16, walls=False)
        dispatcher = Dispatcher(SHARDS, turns_per_call=4, pace=PACE_SECONDS)
        return Coordinator(order, dispatcher, mode=self._mode.value)

    def _followed(self, timeline: Timeline) -> FollowedCluster:
        self.api = ApiProcess(timeline, seed=self.seed)
        return FollowedKubernetes(self.api, seed=self.seed)

    def _schedule(self) -> None:
        after, kubelets = self.simulation.timeline.after, self._kubelets
        for ask in self._load.asks:
            after(ask.at, partial(self._ask, ask))
        for taken in self._load.taken_away:
            after(taken.at, partial(kubelets.take_away, taken.node, taken.seconds))
        for fault in self._faults:
            after(fault.at, partial(self._strike, fault))
        for of_role in self._role_faults:
            self.simulation.strike(of_role)

    def _ask(self, ask: Ask) -> None:
        """One after the other: each is answered before the next one is asked."""
        self._open.append(ask)
        if len(self._open) == 1:
            self._serve()

    def _serve(self) -> None:
        while self._open:
            ask = self._open[0]
            code = self.api.ask(ask.method, ask.path, ask.body)
            # What is absent was deleted before; a name that is still in use is waited for. A budget
            # may refuse an eviction, which is asked once.
            once = ask.method == "DELETE" or ask.path.endswith("/eviction")
            if code >= 400 and not (once and code in (404, 429)):
                self.simulation.timeline.after(AGAIN_SECONDS, self._serve)
                return
            self._open.popleft()

    def _strike(self, fault: ServerFault) -> None:
        api, timeline = self.api, self.simulation.timeline
        timeline.struck[fault.kind.value] += 1
        match fault.kind:
            case ServerFaultKind.KILLED | ServerFaultKind.COMPACTED:
                compacts = fault.kind is ServerFaultKind.COMPACTED
                api.kill(away=fault.seconds, compacts=compacts)
            case ServerFaultKind.WATCHES_CUT:
                api.edge.cut_watches()
                api.faults.begin(fault.kind, fault.seconds)
            case ServerFaultKind.DEPOSED_BINDING:
                killed = Fault(FaultKind.LEADER_KILLED, at=0.0, seconds=0.2)
                api.faults.hold_bindings(2, partial(self.simulation.strike, killed))
            case _:
                api.faults.begin(fault.kind, fault.seconds)

    # --- the run --------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises what the code under test raises, and what the double does not know."""
        over = [ask.at for ask in self._load.asks]
        over += [fault.at + fault.seconds for fault in self._faults]
        over += [fault.at + fault.seconds for fault in self._role_faults]
        calm = max([LAST_SECONDS, *over])
        if any(fault.kind is ServerFaultKind.DEPOSED_BINDING for fault in self._faults):
            calm += DELAYED_SECONDS
        self._run_until(calm)
        # Not for every gang are there victims whose places would do.
        for name in self._load.lasting:
            self._ask(Ask(0.0, "DELETE", f"{PODS}/{name}"))
        self._until(calm + CALM_SECONDS, self._all_ended)
        self.waited = self._waiting()
        for method, path in ending(self._load):
            self._ask(Ask(0.0, method, path))
        self._until(self.simulation.timeline.now - START + ENDED_SECONDS, self._all_gone)
        self._run_until(self.simulation.timeline.now - START + 1.0)

    def _until(self, latest: float, holds: Callable[[], bool]) -> None:
        at = self.simulation.timeline.now - START
        while not holds() and at < latest:
            at += STEP_SECONDS
            self._run_until(at)

    def _run_until(self, at: float) -> None:
        self.simulation.run(until=START + at)
        if self.api.edge.failures:
            raise self.api.edge.failures[0]

    def _all_ended(self) -> bool:
        return not self._open and not self._waiting()

    def _waiting(self) -> list[str]:
        """Pods that have yet to end, but for those of gangs that lost a member."""
        pods, members = self.api.objects("pods"), defaultdict[str, list[str]](list)
        for name in self._load.pods:
            members[name.partition("-")[0]].append(name)
        lost = {
            group
            for group, names in members.items()
            if any(_phase(pods, name) in ("", "Failed") for name in names)
        }
        return [
            name
            for name in self._load.pods
            if _phase(pods, name) not in ("", *_ENDED) and name.partition("-")[0] not in lost
        ]

    def _all_gone(self) -> bool:
        simulation = self.simulation
        incarnation, ledger = simulation.incarnation, simulation.ledger
        return (
            incarnation.process.alive
            and not self._open
            and not self.api.objects("pods")
            and settled(simulation.core)
            and not simulation.core.order.open
            and not at_once(ledger.read_binds(CONSUMER, own=True))
            and not at_once(ledger.read_nominations())
        )

    def end(self) -> None:
        """End all processes."""
        for incarnation in self.simulation.incarnations:
            if incarnation.process.alive:
                incarnation.die()
        self._kubelets.end()
        self.api.end()

    def judged(self) -> KubernetesPlayed:
        simulation = self.simulation
        self.notes.end(simulation.timeline.now)
        report = check_lines(self.notes.lines, name=f"seed {self.seed}", closed=True)
        broken = run_violations(simulation, report)
        broken += [Broken("unfinished", f"pod {name} waits") for name in self.waited]
        if self._all_gone():
            broken += final_violations(simulation)
        else:
            broken.append(Broken("unfinished", str(simulation.core.status()["jobs"])))
        return KubernetesPlayed(self.seed, simulation, self.api, self.notes, report, broken)


def play_kubernetes(seed: int) -> KubernetesPlayed:
    """Run a seed to its end and judge it."""
    play = _Play(seed)
    with _as_killed_processes_leave_it():
        try:
            play.run()
            return play.judged()
        except Exception as error:  # whatever the production code raises is what we look for
            broken = [crashed(error)]
            return KubernetesPlayed(
                seed, play.simulation, play.api, play.notes, report=None, broken=broken
            )
        finally:
            play.end()
            gc.collect()


@contextlib.contextmanager
def _as_killed_processes_leave_it() -> Iterator[None]:
    """aiohttp warns of sessions and tasks that nobody closed, which whoever is killed leaves."""
    hook = sys.unraisablehook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        sys.unraisablehook = _ignore
        try:
            yield
        finally:
            sys.unraisablehook = hook


def _ignore(error: object) -> None:
    """The end of a coroutine of a dead process."""


def _phase(pods: dict[str, dict[str, Any]], name: str) -> str:
    """ "" for a pod that does not exist."""
    pod = pods.get(f"default/{name}")
    return "" if pod is None else str(pod["status"]["phase"])


def _role_faults(draw: Random) -> list[Fault]:
    kinds, weights = list(_OF_ROLES), list(_OF_ROLES.values())
    faults = []
    for _ in range(draw.choice([0, 0, 1, 2, 3])):
        [kind] = draw.choices(kinds, weights)
        at, seconds = draw.uniform(FIRST_SECONDS, LAST_SECONDS), draw.uniform(0.0, 1.0)
        faults.append(Fault(kind, at, seconds, draw.randrange(SHARDS)))
    return faults
