"""tdm: nodes that belong to somebody else for a part of the day (time division multiplexing).

A node with the label ``volcano.sh/revocable-zone`` takes tasks only in the hours of its zone, and
only tasks that may be evicted again. When the hours are over these are evicted, a few of each job
at a time. Hours are UTC; in Volcano they are the local time of the scheduler, which workers on
several machines need not share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import PERMIT, REJECT, Check, Mask, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.job import PREEMPTABLE, SessionJob, TaskInfo
from shard_worker.session_model.status import COMPLETED, Status
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress
from shard_worker.session_model.world import World
from shared.model.model import Pairs
from shared.policy.model import PluginOption, PolicyError
from shared.units.bounded_numbers import whole_number

ZONE = "volcano.sh/revocable-zone"
"""Label of a node: its zone. Annotation of a pod: "*" allows any zone."""
MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
"""Annotations of a job: how many of its tasks have to run, or may be unavailable; "3" or "50%"."""
ZONE_ARGUMENT = "tdm.revocable-zone."
EVICT_PERIOD = 60.0
LAST = "tdm: evicted at"
TOP_SCORE = 100.0
AT_ONCE = "1"
"""Tasks of a job evicted at a time if neither the job nor the policy sets it."""
DAY = 86400

CLOSED = "node(s) were in a revocable zone outside its hours"
NOT_REVOCABLE = "node(s) were revocable, and the pod cannot be sent away again"


@dataclass(frozen=True, slots=True)
class Hours:
    """From ``start`` to ``end``, in seconds of the day; an end not after the start is on the next
    day."""

    start: int
    end: int

    def at(self, now: float) -> bool:
        second = now % DAY
        if self.start < self.end:
            return self.start <= second <= self.end
        return second >= self.start or second <= self.end


class Tdm:
    name = "tdm"

    def __init__(self, option: PluginOption) -> None:
        self._zones = {
            key.removeprefix(ZONE_ARGUMENT): _hours(option.text(key), key)
            for key in option.arguments
            if key.startswith(ZONE_ARGUMENT)
        }
        self._period = option.duration("tdm.evict.period", EVICT_PERIOD)
        self._at_once = option.text("tdm.evict.max-num") or AT_ONCE
        self._ssn: Session | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        ssn.read_annotations(ZONE, PREEMPTABLE)
        ssn.add_live_predicate_fn(self.checks, scope=Scope.NODE)
        ssn.add_batch_node_order_fn(self.prefer)
        ssn.add_preemptable_fn(self.preemptable)
        ssn.add_victim_tasks_fn(self.victims)
        ssn.add_job_order_fn(key=job_order)
        ssn.add_job_pipelined_fn(None, counted=job_pipelined)
        ssn.add_job_starving_fn(job_starving)

    # --- nodes --------------------------------------------------------------------------------

    def checks(self, task: TaskInfo, world: World) -> list[Check]:
        """Two checks: the zone is open, and the task is revocable. Evictions can cure neither."""
        zoned, open_now = self._masks(world)
        if not zoned.any():
            return []
        checks = [Check(CLOSED, ~zoned | open_now, curable=False)]
        if not revocable(task):
            checks.append(Check(NOT_REVOCABLE, ~zoned, curable=False))
        return checks

    def prefer(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """Score nodes in open zones higher for revocable tasks: others cannot use them."""
        scores: Scores = np.zeros(len(rows))
        if revocable(task):
            scores[self._masks(world)[1][rows]] = TOP_SCORE
        return scores

    def _masks(self, world: World) -> tuple[Mask, Mask]:
        """(rows in a zone, those of them whose zone is open now)."""
        column = world.view.label(ZONE)
        codes = column.codes[: world.size]
        zoned: Mask = codes >= 0
        named = [self._open(zone, world) for zone in column.values]
        open_now: Mask = zoned.copy()
        open_now[zoned] = np.array(named, np.bool_)[codes[zoned]]
        return zoned, open_now

    def _open(self, zone: str, world: World) -> bool:
        hours = self._zones.get(zone)
        return hours is not None and hours.at(world.now)

    # --- victims ------------------------------------------------------------------------------

    def preemptable(
        self, preemptor: TaskInfo, victims: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        """Revocable tasks on ordinary nodes, as victims for tasks that are not revocable; limited
        per job."""
        # A task that could use the revocable nodes need not take ordinary ones from others.
        if revocable(preemptor):
            return []
        zoned, _ = self._masks(world)
        return self._limited([v for v in victims if marked(v) and not zoned[v.row]])

    def victims(self, running: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
        """Once per period: tasks on nodes of a zone outside its hours, limited per job."""
        memory = {} if self._ssn is None else self._ssn.memory
        if world.now < memory.get(LAST, -np.inf) + self._period:
            return []
        zoned, open_now = self._masks(world)
        closed = zoned & ~open_now
        if not closed.any():
            return []
        # Noted only where something is closed: the period runs between evictions.
        memory[LAST] = world.now
        late = [task for task in running if marked(task) and closed[task.row]]
        return self._limited(sorted(late, key=lambda task: task.priority))

    def _limited(self, victims: Sequence[TaskInfo]) -> list[TaskInfo]:
        """The first victims of each job, up to the number that the job can do without."""
        remaining: dict[int, int] = {}
        chosen: list[TaskInfo] = []
        for victim in victims:
            of = id(victim.job)
            if of not in remaining:
                remaining[of] = dispensable(victim.job, self._at_once)
            if remaining[of] > 0:
                remaining[of] -= 1
                chosen.append(victim)
        return chosen


def dispensable(job: SessionJob, at_once: str = AT_ONCE) -> int:
    """The number of running tasks that a job says it can do without; by default ``at_once``."""
    marks, now, total = dict(job.job.annotations), job.census, len(job.tasks)
    running = now.of(Status.RUNNING)
    if MAX_UNAVAILABLE in marks:
        missing = total - now.of(COMPLETED) - running
        return max(_amount(marks[MAX_UNAVAILABLE], total) - missing, 0)
    if MIN_AVAILABLE in marks:
        return max(running - _amount(marks[MIN_AVAILABLE], total), 0)
    return _amount(at_once, total)


# --- jobs -----------------------------------------------------------------------------------------


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs that are not revocable first."""
    del cluster
    return float(_says_preemptable(info.job.annotations, info.job.labels))


def job_pipelined(progress: Progress) -> int:
    """Whether the minimum is placed or pipelined, as a vote."""
    reached = progress.held[0] + progress.waiting[0] >= progress.minimum[0]
    return PERMIT if reached else REJECT


def job_starving(info: JobInfo) -> bool:
    """A job that is not revocable starves while any of its tasks waits."""
    if _says_preemptable(info.job.annotations, info.job.labels):
        return False
    return info.pending + info.best_effort[0] > 0


def marked(task: TaskInfo) -> bool:
    """Whether the pod, or its job, is marked preemptable. Without the mark it may not be
    evicted."""
    role, job = task.role, task.job.job
    for marks in (role.annotations, role.labels, job.annotations, job.labels):
        for key, value in marks:
            if key == PREEMPTABLE:
                return value.lower() == "true"
    return False


def revocable(task: TaskInfo) -> bool:
    """Whether the task may go to a revocable node: by its zone annotation, else its preemptable
    mark."""
    for marks in (task.role.annotations, task.job.job.annotations):
        for key, value in marks:
            if key == ZONE:
                return value == "*"
    return marked(task)


def _says_preemptable(*marks: Pairs) -> bool:
    values = [value for pairs in marks for key, value in pairs if key == PREEMPTABLE]
    return bool(values) and values[0].lower() == "true"


def _amount(share: str, whole: int) -> int:
    """ "3" is 3, "50%" half of ``whole`` rounded down; any other text is 0."""
    number = whole_number(share.removesuffix("%")) or 0
    return number * whole // 100 if share.endswith("%") else number


def _hours(text: str, argument: str) -> Hours:
    parts = [_second(part) for part in text.split("-")]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        raise PolicyError(
            f"plugin tdm: argument {argument} {text!r} is not a part of the day; "
            "write one such as 10:00-21:00"
        )
    return Hours(parts[0], parts[1])


def _second(text: str) -> int | None:
    hour, colon, minute = text.strip().partition(":")
    if not (colon and hour.isdecimal() and minute.isdecimal()):
        return None
    if int(hour) > 23 or int(minute) > 59:
        return None
    return int(hour) * 3600 + int(minute) * 60
