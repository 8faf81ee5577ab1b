"""Random clusters for turns of a worker that search victims: jobs of every kind that columns or
objects may have to tell apart."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from shard_worker.dialects.kai.service.turn_session import TurnSession
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.other_jobs import JobReadCache
from shard_worker.session_model.status import Status
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.ledger.entries.snapshot import Nomination
from shared.messages.messages import TaskState
from shared.model.kai import KaiSubGroup
from shared.model.model import Job
from tests.shard_worker.dialects.kai.clusters import KaiCluster
from tests.shard_worker.dialects.kai.turns import STATE_OF, turn_over

QUEUES = ("a", "b", "c")
NOW = 1000.0


@dataclass(frozen=True)
class RunningJob:
    queue: str
    priority: int
    spare: int
    """Tasks beyond its minimum."""
    waits: int
    """Tasks of it that have no place."""
    status: Status
    tree: bool
    """Whether it has two pod sets."""
    share: str
    """A part of a device by this annotation instead of a whole one."""
    created: float
    uid: str
    ran: float | None
    """Seconds since its PodGroup says that it started."""
    state: str
    """"" or what else there is about it, one of STATES."""


@dataclass(frozen=True)
class DrawnTurn:
    quotas: tuple[int, ...]
    runtimes: tuple[float, ...]
    most: int
    """Jobs that a consolidation moves at most; -1: any number."""
    running: tuple[RunningJob, ...]
    withheld: bool
    """Whether the first node may not be used."""
    nodes: tuple[tuple[int | None, ...], ...]
    """Device by device, the index of the job that a task is of; None: free."""
    queue: str
    priority: int
    tasks: int
    gpus: int
    spare: int


def whole(state: str = "", *, status: Status = Status.RUNNING) -> RunningJob:
    """A gang of whole devices."""
    return RunningJob(
        *("a", 60, 0, 0, status), tree=False, share="", created=1.0, uid="", ran=None, state=state
    )


WITH_ONE_ENDED = DrawnTurn(
    quotas=(0, 0, 0),
    runtimes=(0.0, 0.0),
    most=1,
    running=(whole(status=Status.RELEASING), whole("ended"), *[whole()] * 4),
    withheld=True,
    nodes=((0, 0, 1), (0, 0, 0), (0, 0, 1), (0, 2, 2)),
    queue="a",
    priority=60,
    tasks=1,
    gpus=1,
    spare=0,
)
"""Two jobs may move; one of them has a member that has ended, on no node any more."""

STATES = (
    "spared",  # a rule between tasks counts it
    "gone",  # it is deleted
    "linked",  # it came with the turn
    "started",  # the coordinator tells when
    "nominated",  # it waits for a promise of its own
    "elsewhere",  # it is of another node pool
    "nowhere",  # its queue is not there
    "unknown",  # the view does not know its class
    "leaving",  # one of its tasks is leaving
    "ended",  # one of its tasks has succeeded
    "longer",  # the table has one task more than it
)
SHARES = {"": {}, "half": {"gpu-fraction": "0.5"}, "memory": {"gpu-memory": "4000"}}


@st.composite
def clusters(draw: st.DrawFn) -> DrawnTurn:
    seldom = st.sampled_from([*[False] * 12, True])
    job = st.builds(
        RunningJob,
        queue=st.sampled_from("aabc"),
        priority=st.sampled_from([60, 60, 60, 40, 40, 40, 50, 120]),
        spare=st.integers(0, 2),
        waits=st.sampled_from([*[0] * 12, 1]),
        status=st.sampled_from([*[Status.RUNNING] * 18, Status.BINDING, Status.RELEASING]),
        tree=seldom,
        share=st.sampled_from([*[""] * 18, "half", "memory"]),
        created=st.sampled_from([1.0, 2.0, 3.0]),
        uid=st.text("abz", max_size=2),
        ran=st.sampled_from([None, None, 5.0, 50.0]),
        state=st.sampled_from([*[""] * 50, *STATES]),
    )
    running = tuple(draw(st.lists(job, min_size=6, max_size=18)))
    free = [None] * (len(running) // 6)
    holder = st.sampled_from([*range(len(running)), *free])
    node = st.lists(holder, min_size=3, max_size=4).map(tuple)
    return DrawnTurn(
        quotas=draw(st.tuples(*[st.integers(0, 4)] * 3)),
        runtimes=draw(st.tuples(*[st.sampled_from([0.0, 0.0, 20.0])] * 2)),
        withheld=draw(st.sampled_from([True, False, False, False])),
        most=draw(st.sampled_from([-1, 1, 2, 16])),
        running=running,
        nodes=tuple(draw(st.lists(node, min_size=3, max_size=6))),
        queue=draw(st.sampled_from("aabc")),
        priority=draw(st.sampled_from([60, 90, 90])),
        tasks=draw(st.integers(1, 3)),
        gpus=draw(st.sampled_from([1, 1, 2, 3])),
        spare=draw(st.integers(0, 1)),
    )


PLUGINS = (
    "predicates",
    "proportion",
    "priority",
    "elastic",
    "nodeavailability",
    "nodeplacement",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
)


def built(drawn: DrawnTurn) -> tuple[KaiCluster, dict[str, RunningJob]]:
    preempt, reclaim = drawn.runtimes
    times = {
        "defaultPreemptMinRuntime": f"{preempt:g}s",
        "defaultReclaimMinRuntime": f"{reclaim:g}s",
    }
    plugins = [{"name": name} for name in PLUGINS]
    plugins.append({"name": "minruntime", "arguments": times})  # type: ignore[dict-item]
    cluster = KaiCluster(
        tiers=[{"plugins": plugins}],
        options={"max-consolidation-preemptees": drawn.most},
    )
    cluster.queue("department", parent="")
    for name, quota in zip(QUEUES, drawn.quotas, strict=True):
        cluster.queue(name, quota=quota + 6 * (name == drawn.queue))
    places: dict[int, list[tuple[str, str]]] = {}
    for at, devices in enumerate(drawn.nodes):
        labels = {"nvidia.com/gpu.memory": str(8000 * (1 + at % 2))}
        cluster.node(f"n{at}", gpus=len(devices), labels=labels)
        for device, job in enumerate(devices):
            if job is not None:
                places.setdefault(job, []).append((f"n{at}", f"kai-gpu/{device}"))
    named = {}
    for job, held in places.items():
        running = drawn.running[job]
        named[f"runs{job}"] = running
        tasks = len(held) + running.waits
        sets = [KaiSubGroup("x", min_member=1), KaiSubGroup("y", min_member=0)]
        part = 1000 if not running.share else 500
        cluster.job(
            f"runs{job}",
            tasks=tasks,
            minimum=max(len(held) - running.spare, 1),
            queue=running.queue,
            priority=running.priority,
            on=[node for node, _ in held],
            status=running.status,
            holding=[((device, (part,)),) for _, device in held],
            sub_groups=sets if running.tree else (),
            members=["xy"[at % 2] for at in range(tasks)] if running.tree else (),
            marks=SHARES[running.share],
        )
    cluster.job(
        "waits",
        tasks=drawn.tasks,
        minimum=max(drawn.tasks - drawn.spare, 1),
        gpus=drawn.gpus,
        queue=drawn.queue,
        priority=drawn.priority,
    )
    return cluster, named


def opened(
    drawn: DrawnTurn,
    *,
    by_columns: bool,
    reading: JobReadCache | None = None,
    session: TurnSession | None = None,
) -> tuple[TurnSession, SessionJob]:
    cluster, named = built(drawn)
    whole = cluster.open()
    jids = {job.job.name: job.job.jid for job in whole.world.session_jobs()}
    groups = whole.world.objects.kai_groups
    for key, group in groups.items():
        ran = named[group.name].ran if group.name in named else None
        groups[key] = replace(group, last_start=None if ran is None else NOW - ran)

    def spec(job: Job) -> Job:
        running = named.get(job.name)
        if running is None:
            return job
        roles = job.roles
        if "z" in running.uid:  # the last task goes first
            roles = tuple(replace(role, created=(100.0 - role.first,)) for role in roles)
        job = replace(job, created=running.created, uid=running.uid, roles=roles)
        match running.state:
            case "elsewhere":
                return replace(job, labels=(("kai.scheduler/node-pool", "other"),))
            case "nowhere":
                return replace(job, queue="missing")
            case "unknown":
                return replace(job, roles=tuple(replace(role, cid=99) for role in job.roles))
            case "longer":
                return replace(job, roles=job.roles[:-1])
            case _:
                return job

    def state_of(task: TaskInfo) -> TaskState:
        running = named.get(task.job.job.name)
        one = {"leaving": TaskState.RELEASING, "ended": TaskState.SUCCEEDED}
        if running is not None and task.tix == 0 and running.state in one:
            return one[running.state]
        return STATE_OF[task.status]

    def prepare(view: View) -> None:
        view.withheld[0] = drawn.withheld
        for jid in those("nominated"):
            view.nominations[jid] = Nomination(jid, 0, NOW, NOW, [])

    def those(state: str) -> list[int]:
        return [jids[name] for name, running in named.items() if running.state == state]

    return turn_over(
        whole,
        "waits",
        by_columns=by_columns,
        spec=spec,
        state_of=state_of,
        prepare=prepare,
        spared=those("spared"),
        gone=those("gone"),
        linked=those("linked"),
        starts=dict.fromkeys(those("started"), NOW - 10),
        reading=reading,
        now=NOW,
        session=session,
    )
