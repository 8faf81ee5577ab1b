"""Evictions in seeded runs: every moment that may befall a victim is met, and survived."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from coordinator.bind import evictions
from coordinator.bind.binder import BindPlan
from coordinator.bind.evictions import Victims
from coordinator.cluster.protocol import BindAnswer, BindAnswers, Reports
from coordinator.core.coordinator import Coordinator
from coordinator.intake.documents.document import Key
from coordinator.jobs.state import JobState, SchedulingStatus
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import UNTIL, ScenarioResult, build, play
from laboratory.scenarios.workload import node
from laboratory.simulation.run import Simulation
from laboratory.simulation.scenario import Scenario, UserRequest
from laboratory.simulation.virtual_time import CALM, Place
from shared.codec.packed import replace
from shared.ledger.entries.stored import Evicted, TaskRecord
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import StatusItem, TaskState
from tests.examples import THOROUGH, first_of
from tests.shared.ledger.changed_rules import change, count_when, insert_at_start

SEEDS = 300

AWAY_SECONDS = 2.0
"""Longer than it takes until a worker that died is replaced, and its turns are read again."""

S = TaskState

ANY_LOOSE = """
    local function any_loose()
      for _, run in ipairs(victims) do
        if not is_guarded(run, GUARD_GANG) then return true end
      end
    end
"""


def evicting(*first: int) -> Iterator[Scenario]:
    """All that evict, with these seeds before the others."""
    for seed in (*first, *range(SEEDS)):
        if (expected := scenario(seed)).evicting:
            yield expected


# --- what happens -----------------------------------------------------------------------------


@pytest.mark.all
@pytest.mark.timeout(300)  # 12 s of processor time
def test_every_moment_of_a_victim_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: Counter[str] = Counter()
    expected = (
        *("its bind was on its way", "a binding one is refused", "gang kept", "guarantee kept"),
        "gang kept beside one that may break",
        *("of a changed job", "takeover", "ended well", "late report", "late answer to a stop"),
        "twice evicted",
    )
    _watch_books(monkeypatch, observed)
    _watch_late(monkeypatch, observed)
    _watch_ledger(monkeypatch, observed)
    for one in evicting(238, 53, 101, 27):
        build(one).run(until=UNTIL)
        if all(observed[name] for name in expected):
            return
    raise AssertionError([name for name in expected if not observed[name]])


def _watch_books(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    leave, original_known, recorded = Victims._leave, Victims.known, Coordinator.recorded

    def counted_leave(self: Victims, state: JobState, evicted: Evicted) -> None:
        jid, order = evicted.jid, self._order
        counts["its job goes"] += jid in order.departures.jobs
        for tix, row, incarnation in zip(
            evicted.tasks, evicted.rows, evicted.incarnations, strict=True
        ):
            counts["its bind was on its way"] += state.states[tix] == S.BINDING
            counts["its outcome was"] += state.states[tix] == S.PENDING
            counts["its node goes"] += row not in self._order.accounts.cluster.nodes
            counts["twice evicted"] += incarnation > 0
        leave(self, state, evicted)

    def counted_known(self: Victims, state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        leaving = any(task.by >= 0 for task in tasks.values())
        counts["takeover"] += leaving and not self._order.reachable
        counts["known from a reread"] += leaving and bool(self._order.reachable)
        original_known(self, state, tasks)

    def counted(self: Coordinator, items: list[StatusItem], applied: list[list[int]]) -> None:
        for item, tasks in zip(items, applied, strict=True):
            state = self.order.known(item.jid)
            if state is not None and not state.evicted.isdisjoint(tasks):
                counts["ended well"] += item.state is S.SUCCEEDED
                counts["adopted elsewhere"] += item.adopted
                counts["its job goes"] += item.jid in self.leaving
        recorded(self, items, applied)

    monkeypatch.setattr(Victims, "_leave", counted_leave)
    monkeypatch.setattr(Victims, "known", counted_known)
    monkeypatch.setattr(Coordinator, "recorded", counted)


def _watch_late(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    current, answered, stopped = evictions._current, Victims.answered, Coordinator.stopped

    def counted_current(reports: Reports, incarnations: Mapping[str, int]) -> Reports:
        result = current(reports, incarnations)
        counts["late report"] += len(result.tasks) < len(reports.tasks)
        return result

    def counted_answered(self: Victims, plan: BindPlan, answers: BindAnswers) -> BindAnswers:
        result = answered(self, plan, answers)
        counts["late answer"] += BindAnswer.OVER in result.answers
        return result

    def counted_stopped(
        self: Coordinator,
        tasks: list[tuple[int, int]],
        uids: list[str],
        never: list[tuple[int, int]],
    ) -> list[StatusItem]:
        counts["late answer to a stop"] += self.victims.uids(tasks) != uids
        return stopped(self, tasks, uids, never)

    monkeypatch.setattr(evictions, "_current", counted_current)
    monkeypatch.setattr(Victims, "answered", counted_answered)
    monkeypatch.setattr(Coordinator, "stopped", counted_stopped)


def _watch_ledger(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    """Count in the scripts themselves how often the eviction rules are met."""
    gang = "if group then return GANG, group end"
    guarantee = "if qid then return QUEUE_FULL, qid end"
    beside = "gang kept beside one that may break"
    insert_at_start(monkeypatch, "local function judge_guards(victims)", ANY_LOOSE)
    count_when(monkeypatch, counts, gang, {"gang kept": "group", beside: "group and any_loose()"})
    count_when(monkeypatch, counts, guarantee, {"guarantee kept": "qid"})
    changed = "if not owner or owner[3] ~= 0 or owner[1] ~= run[2] then"
    count_when(monkeypatch, counts, changed, {"of a changed job": changed[3:-5]})
    state = "if rec[1] ~= BOUND and rec[1] ~= RUNNING then return false end"
    count_when(monkeypatch, counts, state, {"a binding one is refused": "rec[1] == BINDING"})


def test_a_victim_may_be_of_a_class_that_its_evictor_has_not_read_yet() -> None:
    """Seed 81106: the bold evictor reads the ledger itself, past its view, which is older."""
    assert not play(scenario(81106)).broken


# --- the coordinator dies ------------------------------------------------------------------------


@cache
def _calm() -> tuple[Scenario, Counter[str], Evicted, float]:
    """A run that evicts, and in which nothing else goes wrong: how often each event happens, who is
    evicted first, and when."""
    for expected in evicting():
        calm = replace(expected, faults=(), faulty=False, network=CALM)
        simulation = build(calm)
        reports: list[tuple[Evicted, float]] = []

        def look(one: Simulation = simulation, seen: list[tuple[Evicted, float]] = reports) -> None:
            if seen:
                return
            snapshot = at_once(one.ledger.snapshot())
            seen += [
                (Evicted(jid, task.by, "", [tix], [task.row], []), one.timeline.now)
                for jid, tasks in snapshot.tasks.items()
                for tix, task in tasks.items()
                if task.by >= 0 and snapshot.jobs[jid].groups[0].minimum > 0
            ]

        simulation.run(until=UNTIL, inspect=look)
        if reports:
            return calm, simulation.happened, *reports[0]
    raise AssertionError("no seed evicts")


LONGER = ("stop asked", "report answered")


@pytest.mark.parametrize(
    "name", ["stop answered", *(pytest.param(n, marks=pytest.mark.all) for n in LONGER)]
)
def test_the_coordinator_dies_around_an_eviction(name: str) -> None:
    """Outside of CI before or after each, drawn anew in each run; see tests/examples.py."""
    expected, happened, _, _ = _calm()
    assert happened[name]
    for which in sorted({1, (happened[name] + 1) // 2}):
        for before in (True, False) if THOROUGH else (random.random() < 0.5,):
            played = play(expected, crash=(name, which, before))
            how = f"{expected.seed}, {'before' if before else 'after'} {name} {which}"
            assert not played.broken, f"{how}: {played.broken[0]}"
            assert len(played.simulation.incarnations) > 1, how


# --- its job's turn is lost meanwhile -----------------------------------------------------------


def test_a_turn_is_lost_while_a_victim_of_its_job_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that are read again have a victim as leaving. By chance one run in several
    hundred meets that, so here the cluster is away while one leaves, and workers die that may have
    a turn of its job."""
    observed: Counter[str] = Counter()
    _watch_books(monkeypatch, observed)
    for expected in evicting(119):
        played = play(expected, inspect=_LosesTurns())
        assert not played.broken, f"{expected.seed}: {played.broken[0]}"
        if observed["known from a reread"]:
            return
    raise AssertionError("no seed shows it")


class _LosesTurns:
    def __init__(self) -> None:
        self._away = self._killed = False

    def __call__(self, simulation: Simulation) -> None:
        if self._killed:
            return
        for state in simulation.core.order.jobs.values():
            if not state.evicted:
                continue
            if not self._away:
                self._away = True
                simulation.timeline.leave(Place.CLUSTER, AWAY_SECONDS)
            if state.status is SchedulingStatus.OPEN:
                self._killed = True
                for shard in list(simulation.shards.workers):
                    simulation.shards.kill(shard)
                return


# --- it is taken away meanwhile ---------------------------------------------------------------


def _meanwhile(*, after: float, wish: UserRequest) -> ScenarioResult:
    """The same run, but for one wish of a user so long after the first eviction."""
    expected, _, _, now = _calm()
    at = now - build(expected).timeline.now + after
    played = play(replace(expected, wishes=(*expected.wishes, replace(wish, at=at))))
    assert not played.broken, f"{expected.seed}, {after} s after: {played.broken[0]}"
    return played


@pytest.mark.parametrize(
    "after", [0.0, *(pytest.param(s, marks=pytest.mark.all) for s in (0.004, 0.03, 0.06))]
)
@pytest.mark.parametrize("whose", first_of(["victim", "preemptor"]))
def test_a_job_is_deleted_while_its_victim_leaves(after: float, whose: str) -> None:
    expected, _, evicted, _ = _calm()
    core = build(expected)
    core.run(until=_calm()[3] + 0.001)
    state = core.core.order.known(evicted.jid if whose == "victim" else evicted.by)
    assert state is not None
    _meanwhile(after=after, wish=UserRequest(0.0, (), Key(state.job.kind, "ns", state.job.name)))


@pytest.mark.all
@pytest.mark.parametrize("after", [0.0, 0.03])
def test_the_node_of_a_victim_goes(after: float) -> None:
    expected, _, evicted, now = _calm()
    simulation = build(expected)
    simulation.run(until=now + 0.001)
    name = simulation.core.names[evicted.rows[0]]
    back = UserRequest(now - build(expected).timeline.now + 0.3, (node(int(name[1:])),))
    again = replace(expected, wishes=(*expected.wishes, back))
    at = now - build(expected).timeline.now + after
    gone = UserRequest(at, (), Key("Node", "", name))
    played = play(replace(again, wishes=(*again.wishes, gone)))
    assert not played.broken, f"{expected.seed}: {played.broken[0]}"


# --- it can fail ------------------------------------------------------------------------------


def _caught(*rules: str, first: int) -> bool:
    """``first``: a seed that showed it when this was written."""
    return any(
        broken.rule.startswith(rules)
        for expected in evicting(first)
        for broken in play(expected).broken
    )


def test_gangs_that_are_left_short(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, "is_gang and broken_group(run)", "nil")
    assert _caught("promise 3", first=5)


@pytest.mark.all
def test_queues_that_are_robbed(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, "is_guarded(run, GUARD_GUARANTEE) and robbed_queue(run)", "nil")
    assert _caught("promise 2", first=27)


@pytest.mark.all
def test_victims_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at their state, what has ended is evicted."""
    may_go = "local function may_go(rec, run, row)"
    insert_at_start(monkeypatch, may_go, "if rec then return true end")
    assert _caught("promise", first=23)


@pytest.mark.all
def test_reports_that_are_taken_for_the_next_incarnation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evictions, "_current", lambda reports, _: reports)
    assert _caught("promise 6", "account", first=141)


@pytest.mark.all
def test_victims_that_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are taken for failed."""
    monkeypatch.setattr(Victims, "ended", lambda _, items: items)
    assert _caught("account", first=197)
