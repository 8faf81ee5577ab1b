"""The double's judgement of statements: the rules of the commit script in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from shared.codec.packed import replace
from shared.ledger.codec import accepted_runs, committed_of
from shared.ledger.entries.log import Committed
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import Evicted, TaskRecord, ThingAsk
from shared.ledger.errors import LedgerArgument
from shared.ledger.gang_minimum import lacks
from shared.ledger.memory.books import JobAccount, Named, NodeBook, Overlay, Requests
from shared.ledger.memory.evict import FINE, Evicting, Finding
from shared.ledger.memory.form import check_devices
from shared.ledger.records import ALLOCATABLE, NOMINATED, OBSERVED, RELEASING, USED, WIDTH
from shared.messages.messages import (
    ALLOCATE,
    NOMINATE,
    Answer,
    DomainOp,
    EvictRun,
    Run,
    Statement,
    TaskState,
    Verdict,
)
from shared.units.things import Things


@dataclass(frozen=True, slots=True)
class JudgedOperation:
    kind: int
    cid: int
    group: int
    tix: int
    row: int
    version: int
    spec: int
    devices: Things


def operations(run: Run) -> Iterator[JudgedOperation]:
    columns = zip(run.tasks, run.rows, run.versions, run.specs, strict=True)
    return (
        JudgedOperation(run.kind, run.cid, run.group, *values, run.devices) for values in columns
    )


def misfit(node: NodeBook, requests: Requests, kind: int) -> Verdict:
    verdict = Verdict.COMMITTED
    for slot, amount, implied in requests:
        if amount == 0:
            continue
        values = node.slots[slot] if slot < len(node.slots) else [0] * WIDTH
        capacity = max(values[ALLOCATABLE], implied)
        occupied = values[USED] + values[OBSERVED]
        if kind == ALLOCATE and occupied + amount > capacity:
            return Verdict.FIT
        if occupied - values[RELEASING] + values[NOMINATED] + amount > capacity:
            verdict = Verdict.NOMINATION
    return verdict


def _asks(overlay: Overlay, cid: int, devices: Things) -> list[ThingAsk]:
    """The named things of the class, then the devices chosen for the task. Devices have no implied
    capacity: a node offers only what it declares."""
    chosen = [ThingAsk(name, amounts, (0,) * len(amounts)) for name, amounts in devices]
    return [*overlay.class_things.get(cid, ()), *chosen]


def misfit_of_things(overlay: Overlay, op: JudgedOperation) -> Verdict:
    """:func:`misfit` for each named thing that the task takes, in each of its dimensions."""
    verdict = Verdict.COMMITTED
    for ask in _asks(overlay, op.cid, op.devices):
        thing = overlay.things.get((op.row, ask.name))
        dimensions = thing.amounts if thing is not None else []
        for at, (amount, offered) in enumerate(zip(ask.amounts, ask.offers, strict=True)):
            values = dimensions[at] if at < len(dimensions) else [0] * WIDTH
            capacity = max(values[ALLOCATABLE], offered)
            occupied = values[USED] + values[OBSERVED]
            if op.kind == ALLOCATE and occupied + amount > capacity:
                return Verdict.FIT
            if occupied - values[RELEASING] + values[NOMINATED] + amount > capacity:
                verdict = Verdict.NOMINATION
    return verdict


def _meets(value: int, op: DomainOp) -> bool:
    match op.condition:
        case "eq0":
            return value == 0
        case "ge1":
            return value >= 1
        case "le":
            return value <= op.bound
        case _:
            return True


def named_things(
    overlay: Overlay, statements: Iterable[Statement], rows: set[int]
) -> dict[Named, int]:
    """The things that operations on these rows name, with the dimensions of the first that names
    each."""
    named: dict[Named, int] = {}
    for s in statements:
        for run in (*s.core, *s.tail):
            for row in rows.intersection(run.rows):
                if run.cid not in overlay.classes:
                    continue
                for ask in _asks(overlay, run.cid, run.devices):
                    named.setdefault((row, ask.name), len(ask.amounts))
    return named


@dataclass(slots=True)
class Judge:
    """Judges the statements of one batch on an overlay, in order."""

    overlay: Overlay
    now: float
    accepted: list[Committed] = field(default_factory=list)
    refused: list[tuple[int, Verdict]] = field(default_factory=list)
    binds: list[tuple[int, int, list[int], list[int]]] = field(default_factory=list)
    lives: dict[tuple[int, int], int] = field(default_factory=dict)
    evicts: list[Evicted] = field(default_factory=list)
    devices: dict[tuple[int, int], Things] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)

    _moved: bool = False
    _in_part: bool = False
    """Whether the job of the statement being judged may hold less than its minimum."""
    _placed: dict[int, JudgedOperation] = field(default_factory=dict)
    """tix -> operation of the statement being judged that holds capacity now."""

    def judge(self, s: Statement) -> Answer:
        for run in (*s.core, *s.tail):
            named = {ask.name for ask in self.overlay.class_things.get(run.cid, ())}
            check_devices(f"devices of job {s.jid}", run.devices, named)
        self.overlay.begin()
        self._moved = False
        self._in_part = s.in_part
        self._placed = {}
        verdict, at = self._judge_job(s)
        if verdict is Verdict.COMMITTED:
            verdict, at = self._judge_core(s)
        if verdict is not Verdict.COMMITTED:
            return self._refuse(s, verdict, at)
        return self._accept(s)

    # --- before anything changes ------------------------------------------------------------

    def _judge_job(self, s: Statement) -> Finding:
        job = self.overlay.jobs.get(s.jid)
        if job is None or job.gone or (job.spec_version, job.qid) != (s.job_version, s.qid):
            return Verdict.JOB, s.jid
        if self.overlay.queues.get(job.qid) is None:
            return Verdict.QUEUE, job.qid
        for run in (*s.core, *s.tail):
            if run.cid not in self.overlay.classes or run.group >= len(job.groups):
                return Verdict.JOB, s.jid
        return self._judge_rank(s)

    def _judge_rank(self, s: Statement) -> Finding:
        for i, displaced_jid in enumerate(s.displaced):
            if displaced_jid in s.displaced[:i]:
                raise LedgerArgument(f"job {s.jid}: displaced names job {displaced_jid} twice")
            nomination = self.overlay.nominations.get(displaced_jid)
            if (
                displaced_jid != s.jid
                and nomination is not None
                and nomination.priority >= s.priority
            ):
                return Verdict.RANK, displaced_jid
        return FINE

    # --- the core ---------------------------------------------------------------------------

    def _judge_core(self, s: Statement) -> Finding:
        givers = [
            s.jid,
            *(displaced_jid for displaced_jid in s.displaced if displaced_jid != s.jid),
        ]
        for jid in givers:
            self.overlay.shift_nomination(jid, -1, self.overlay.touch)
        evicting = Evicting(self.overlay, s, self._misfit_of_move)
        finding = evicting.judge()
        if finding == FINE:
            finding = self._place_core(s)
        if finding == FINE:
            finding = self._charge_core(s)
        if finding == FINE:
            self.evicts += evicting.book()
            for nomination in evicting.promises(self.now):
                self.overlay.nominations.put(nomination.jid, nomination)
        else:
            self._take_back()
            evicting.undo()
            for jid in givers:
                self.overlay.shift_nomination(jid, 1, self.overlay.untouch)
        return finding

    def _misfit_of_move(self, run: EvictRun, row: int) -> Verdict:
        node = self.overlay.nodes.get(row)
        assert node is not None
        verdict = misfit(node, self.overlay.classes[run.cid], NOMINATE)
        if verdict is not Verdict.COMMITTED:
            return verdict
        op = JudgedOperation(NOMINATE, run.cid, run.group, -1, row, 0, 0, run.devices)
        return misfit_of_things(self.overlay, op)

    def _place_core(self, s: Statement) -> Finding:
        for run in s.core:
            for op in operations(run):
                finding = self._judge_operation(s.jid, op)
                if finding[0] is not Verdict.COMMITTED:
                    return finding
                self._place(op)
        return FINE

    def _charge_core(self, s: Statement) -> Finding:
        """Queues, then groups, then domains: all of one kind before the next, undone on failure."""
        job = self.overlay.jobs.must_own(s.jid)
        runs = [run for run in s.core if run.kind == ALLOCATE and run.tasks]
        charged: list[Run] = []
        finding = FINE
        for run in runs:
            charged.append(run)
            over = self.overlay.charge(job.qid, run.cid, len(run.tasks))
            if over is not None:
                finding = (Verdict.QUEUE, over)
                break
        if finding == FINE:
            finding = self._join_groups(job, runs)
            if finding == FINE:
                finding = self._judge_domains(s.domains)
                if finding != FINE:
                    self._leave_groups(job, runs)
        if finding != FINE:
            for run in charged:
                self.overlay.charge(job.qid, run.cid, -len(run.tasks))
        return finding

    def _join_groups(self, job: JobAccount, allocations: list[Run]) -> Finding:
        runs = self._joining(allocations)
        before = list(job.groups)
        for run in runs:
            job.add(run.group, len(run.tasks))
        for run in runs:
            for index in job.chain(run.group):
                # A group that was in part before is not broken by one more member.
                broken = before[index].held <= 0 and lacks(job.groups, index)
                if broken and not self._in_part:
                    self._leave_groups(job, runs)
                    return Verdict.GANG, index
        return FINE

    def _joining(self, runs: list[Run]) -> list[Run]:
        """The runs whose tasks join their groups now; best-effort members count already."""
        return [run for run in runs if not self.overlay.best_effort(run.cid)]

    def _leave_groups(self, job: JobAccount, runs: list[Run]) -> None:
        for run in self._joining(runs):
            job.add(run.group, -len(run.tasks))

    def _judge_domains(self, domains: list[DomainOp]) -> Finding:
        values = {op.key: self.overlay.domains.get(op.key) or 0 for op in domains}
        for index, op in enumerate(domains):
            if not _meets(values[op.key], op):
                return Verdict.DOMAIN, index
            values[op.key] += op.delta
        for key, value in values.items():
            self.overlay.domains.put(key, value)
        return FINE

    # --- one operation ----------------------------------------------------------------------

    def _judge_operation(self, jid: int, op: JudgedOperation) -> Finding:
        record = self.overlay.tasks.get((jid, op.tix))
        # Placed by an earlier batch, or named twice in this statement.
        if op.tix in self._placed or (record is not None and record.state != TaskState.PENDING):
            return Verdict.TASK, op.tix
        node = self.overlay.nodes.get(op.row)
        if node is None or node.spec_version != op.spec:
            return Verdict.NODE, op.row
        verdict = misfit(node, self.overlay.classes[op.cid], op.kind)
        if verdict is not Verdict.FIT:
            named = misfit_of_things(self.overlay, op)
            verdict = verdict if named is Verdict.COMMITTED else named
        return verdict, op.row

    def _place(self, op: JudgedOperation) -> None:
        node = self.overlay.nodes.must_own(op.row)
        # What this statement has moved itself does not make its own version an old one.
        if node.version - self.overlay.touched(op.row) != op.version:
            self._moved = True
        self.overlay.touch(op.row)
        part = USED if op.kind == ALLOCATE else NOMINATED
        self.overlay.add_to_node(op.row, op.cid, part, 1, devices=op.devices)
        self._placed[op.tix] = op

    def _take_back(self) -> None:
        for op in self._placed.values():
            part = USED if op.kind == ALLOCATE else NOMINATED
            self.overlay.add_to_node(op.row, op.cid, part, -1, devices=op.devices)
            self.overlay.untouch(op.row)

    # --- the tail and the accounts ------------------------------------------------------------

    def _judge_tail_operation(self, s: Statement, op: JudgedOperation) -> Verdict:
        verdict, _ = self._judge_operation(s.jid, op)
        if verdict is not Verdict.COMMITTED:
            return verdict
        if op.kind == ALLOCATE:
            job = self.overlay.jobs.must_own(s.jid)
            run = Run(ALLOCATE, op.cid, op.group, [op.tix], [], [], [], [])
            if self.overlay.charge(job.qid, op.cid, 1) is not None:
                verdict = Verdict.QUEUE
            elif self._join_groups(job, [run]) != FINE:
                verdict = Verdict.GANG
            if verdict is not Verdict.COMMITTED:
                self.overlay.charge(job.qid, op.cid, -1)
                return verdict
        self._place(op)
        return verdict

    def _accept(self, s: Statement) -> Answer:
        chosen = [run for run in s.core if run.tasks]
        verdicts: list[Verdict] = []
        for run in s.tail:
            for op in operations(run):
                verdicts.append(self._judge_tail_operation(s, op))
                if verdicts[-1] is not Verdict.COMMITTED:
                    self.asked.add(op.row)
        tail = accepted_runs(s.tail, verdicts)
        self.refused += [(s.jid, v) for v in verdicts if v is not Verdict.COMMITTED]
        for run in (*chosen, *tail):
            self._book(s.jid, run)
        dropped = self._replace_nominations(s, [*chosen, *tail])
        verdict = Verdict.RECHECKED if self._moved else Verdict.COMMITTED
        self.accepted.append(committed_of(s, verdict, tail, dropped))
        return Answer(verdict, -1, verdicts)

    def _book(self, jid: int, run: Run) -> None:
        if run.kind != ALLOCATE:
            return
        job = self.overlay.jobs.must_own(jid)
        self.overlay.jobs.dirty.add(jid)
        self.overlay.mark_queues(job.qid)
        self.binds.append((jid, run.cid, run.tasks, run.rows))
        for tix, row in zip(run.tasks, run.rows, strict=True):
            before = self.overlay.tasks.get((jid, tix))
            version, life = (before.version + 1, before.life) if before is not None else (1, 0)
            record = TaskRecord(
                int(TaskState.BINDING),
                row,
                run.cid,
                version,
                run.group,
                life,
                devices=run.devices,
            )
            if life:
                self.lives[jid, tix] = life
            if run.devices:
                self.devices[jid, tix] = run.devices
            self.overlay.tasks.put((jid, tix), record)
            job.top = max(job.top, tix + 1)

    def _replace_nominations(self, s: Statement, runs: list[Run]) -> list[int]:
        previous = self.overlay.nominations.get(s.jid)
        others = [j for j in s.displaced if j != s.jid and self.overlay.nominations.get(j)]
        ended = [*others, *([s.jid] if previous else [])]
        for jid in ended:
            self.overlay.nominations.put(jid, None)
        nominated = [replace(run, versions=[], specs=[]) for run in runs if run.kind == NOMINATE]
        if nominated:
            # A renewed nomination keeps its time: it decides between equal priorities.
            since = previous.since if previous else self.now
            self.overlay.nominations.put(
                s.jid, Nomination(s.jid, s.priority, since, s.expiry, nominated)
            )
        return ended

    def _refuse(self, s: Statement, verdict: Verdict, at: int) -> Answer:
        self.refused.append((s.jid, verdict))
        if verdict in (Verdict.FIT, Verdict.NOMINATION, Verdict.NODE):
            self.asked.add(at)
        for run in (*s.core, *s.tail):
            for op in operations(run):
                node = self.overlay.nodes.get(op.row)
                if node is not None and node.version != op.version:
                    self.asked.add(op.row)
        return Answer(verdict, at, [])
