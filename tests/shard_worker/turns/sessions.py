"""Jobs as Order has them, and turns with a turn context of them, for tests of the worker."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shard_worker.session_model.workload import Amounts, add
from shared.messages.messages import HOLDING, NOBODY, Group, TaskState, Turn
from shared.messages.turn_context import TOTALS, TURN_CONTEXT, JobContext, QueueContext, TurnContext
from shared.model.model import Job, Queue, Role, TaskClass
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.records.specs import encode_queue
from shared.records.specs_jobs import encode_job
from shared.units.things import Things

P, B, R, L = TaskState.PENDING, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING

EVERYTHING = parse_policy(
    {
        "actions": "enqueue, allocate, backfill, preempt, reclaim, shuffle",
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
            {"plugins": [{"name": name} for name in ("predicates", "proportion", "nodeorder")]},
        ],
    }
)


@dataclass
class Books:
    """Queues and jobs, and the turn contexts of them."""

    classes: Mapping[int, TaskClass]
    queues: dict[str, Queue] = field(default_factory=lambda: {"default": Queue(0, "default")})
    jobs: dict[int, Job] = field(default_factory=dict)
    states: dict[int, list[TaskState]] = field(default_factory=dict)
    rows: dict[int, list[int]] = field(default_factory=dict)
    keys: dict[int, list[str]] = field(default_factory=dict)
    devices: dict[int, dict[int, Things]] = field(default_factory=dict)
    """Devices of tasks that take any, by jid and tix."""
    versions: dict[str, int] = field(default_factory=dict)
    total: Amounts = field(default_factory=dict)

    def queue(self, name: str, **fields: object) -> Queue:
        new_queue = Queue(len(self.queues), name, **fields)  # type: ignore[arg-type]
        self.queues[name] = new_queue
        return new_queue

    def job(
        self,
        cid: int,
        on: Sequence[int],
        *,
        minimum: int | None = None,
        priority: int = 0,
        queue: str = "default",
        state: TaskState = R,
        **fields: object,
    ) -> Job:
        """A job of one role; ``on``: the row of each task, -1 where it is pending."""
        jid = len(self.jobs)
        new_job = Job(
            jid=jid,
            namespace="default",
            name=f"j{jid}",
            kind="Job",
            uid=f"u{jid}",
            queue=queue,
            created=float(jid),
            priority=priority,
            groups=(Group(-1, len(on) if minimum is None else minimum),),
            roles=(Role("task", cid, 0, len(on)),),
            spec=1,
            **fields,  # type: ignore[arg-type]
        )
        self.jobs[jid] = new_job
        self.states[jid] = [P if row < 0 else state for row in on]
        self.rows[jid] = list(on)
        return new_job

    def used(self) -> Iterable[tuple[int, int]]:
        """(row, class) of every task that holds a node."""
        for jid, job in self.jobs.items():
            for tix, state in enumerate(self.states[jid]):
                if state in HOLDING:
                    yield self.rows[jid][tix], job.role_of(tix).cid

    def turn(self, job: Job | None, action: str, others: Sequence[Job] = ()) -> Turn:
        listed = [*([] if job is None else [job]), *others]
        context = TurnContext(
            total=self.total,
            free={},
            promised={},
            queues=[self._queue(queue) for queue in self.queues.values()],
            jobs=[self._job(one) for one in listed],
            versions=dict(self.versions),
        )
        return Turn(
            jid=NOBODY if job is None else job.jid,
            job_version=0 if job is None else job.spec,
            qid=0 if job is None else self.queues[job.queue].qid,
            priority=0 if job is None else job.priority,
            groups=[] if job is None else list(job.groups),
            runs=[],
            total=0 if job is None else job.tasks,
            action=action,
            world=TURN_CONTEXT.encode(context),
        )

    def _queue(self, queue: Queue) -> QueueContext:
        allocated: Amounts = {}
        requested: Amounts = {}
        mine = [job for job in self.jobs.values() if job.queue == queue.name]
        for job in mine:
            for tix, state in enumerate(self.states[job.jid]):
                asks = self.classes[job.role_of(tix).cid].requests
                if state in (B, R):
                    add(allocated, asks, 1)
                if state in (P, B, R):
                    add(requested, asks, 1)
        totals = {"allocated": allocated, "requested": requested}
        return QueueContext(
            encode_queue(queue), len(mine), [totals.get(name, {}) for name in TOTALS]
        )

    def _job(self, job: Job) -> JobContext:
        return JobContext(
            encode_job(job),
            bytes(self.states[job.jid]),
            array("i", self.rows[job.jid]).tobytes(),
            self.keys.get(job.jid, []),
            "Inqueue",
            {},
            {},
            self.devices.get(job.jid, {}),
        )


def with_actions(names: str) -> Policy:
    """The policy above, with these actions."""
    return Policy(tuple(n.strip() for n in names.split(",")), EVERYTHING.tiers)
