"""Affinity and anti-affinity between pods, against a plain reading of the rules pair by pair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.kube_scheduler.filters.pod_affinity import AFFINITY, ANTI, OTHERS
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.model.constraints import PodTerm
from shared.model.label_selector import matches
from tests.examples import examples
from tests.shard_worker.neighbourhood import (
    APP,
    HOST,
    ZONE,
    asks,
    far,
    label,
    marked,
    near,
    open_to,
    place_all,
    reasons,
    task_of,
    where,
    zones,
)


def one_web(*names: str, **rules: Any) -> Cluster:
    """Three nodes, a pod of app web on the first, and a job that waits."""
    cluster = zones(*names)
    cluster.job("web", on=["n0"], members=marked(app="web"))
    cluster.job("new", **rules)
    return cluster


class TestInterPodAffinity:
    def test_the_domain_has_to_have_such_a_pod(self) -> None:
        session = one_web("a", "a", "b", rules=asks(near())).open()
        assert open_to(session, "new-0") == ["n0", "n1"]
        assert reasons(session, "new-0") == {AFFINITY: 1}

    def test_a_node_without_the_key_is_in_no_domain(self) -> None:
        session = one_web("a", "", "b", rules=asks(near())).open()
        assert open_to(session, "new-0") == ["n0"]

    def test_one_pod_has_to_be_meant_by_all_terms(self) -> None:
        cluster = one_web("a", "a", "b", rules=asks(near(), near(label("tier", "x"), HOST)))
        cluster.job("other", on=["n0"], members=marked(tier="x"))
        assert open_to(cluster.open(), "new-0") == []

    def test_the_first_pod_of_a_group_that_means_itself_goes_where_the_key_is(self) -> None:
        cluster = zones("a", "", "b")
        cluster.job("new", tasks=2, rules=asks(near()), members=marked(app="web"))
        session = cluster.open()
        assert open_to(session, "new-0") == ["n0", "n2"]
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "new-0"), 2)
        assert open_to(session, "new-1") == ["n2"]
        statement.rollback()
        assert open_to(session, "new-1") == ["n0", "n2"]

    def test_a_first_pod_that_does_not_mean_itself_waits(self) -> None:
        cluster = zones("a", "b")
        cluster.job("new", rules=asks(near()))
        assert open_to(cluster.open(), "new-0") == []

    def test_no_eviction_cures_it(self) -> None:
        session = one_web("a", "b", rules=asks(near())).open()
        (check,) = [c for c in session.checks(task_of(session, "new-0")) if c.reason == AFFINITY]
        assert not check.curable


class TestAntiAffinity:
    def test_the_domain_must_have_no_such_pod(self) -> None:
        session = one_web("a", "a", "b", "", rules=asks(far())).open()
        assert open_to(session, "new-0") == ["n2", "n3"]
        assert reasons(session, "new-0") == {ANTI: 2}

    def test_anti_affinity_of_a_running_pod_keeps_new_pods_away(self) -> None:
        cluster = zones("a", "a", "b")
        cluster.job("guard", on=["n0"], rules=asks(far()))
        cluster.job("new", members=marked(app="web"))
        cluster.job("else", members=marked(app="db"))
        session = cluster.open()
        assert open_to(session, "new-0") == ["n2"]
        assert reasons(session, "new-0") == {OTHERS: 2}
        assert open_to(session, "else-0") == ["n0", "n1", "n2"]

    def test_an_eviction_cures_it_and_its_undoing_brings_it_back(self) -> None:
        cluster = zones("a")
        cluster.job("guard", on=["n0"], rules=asks(far()))
        cluster.job("new", members=marked(app="web"))
        session = cluster.open()
        statement = WorldStatement(session)
        for _ in range(2):
            assert open_to(session, "new-0") == []
            statement.evict(task_of(session, "guard-0"), "test")
            assert open_to(session, "new-0") == ["n0"]
            statement.rollback()
        assert all(c.curable for c in session.checks(task_of(session, "new-0")) if c.reason)

    def test_a_task_that_was_leaving_before_still_counts(self) -> None:
        cluster = zones("a", "b")
        cluster.job("web", on=["n0"], status=Status.RELEASING, members=marked(app="web"))
        cluster.job("new", rules=asks(far()))
        assert open_to(cluster.open(), "new-0") == ["n1"]

    def test_a_pipelined_task_counts(self) -> None:
        cluster = zones("a", "b")
        cluster.job("new", tasks=2, rules=asks(far()), members=marked(app="web"))
        session = cluster.open()
        WorldStatement(session).pipeline(task_of(session, "new-0"), 0)
        assert open_to(session, "new-1") == ["n1"]


class TestWhoIsMeant:
    def test_the_own_namespace_unless_others_are_named(self) -> None:
        cluster = zones("a", "b")
        cluster.job("web", on=["n0"], members=marked(app="web"), namespace="there")
        cluster.job("own", rules=asks(far()))
        cluster.job("named", rules=asks(far(namespaces=("there",))))
        cluster.job("every", rules=asks(far(all_namespaces=True)))
        session = cluster.open()
        assert open_to(session, "own-0") == ["n0", "n1"]
        assert open_to(session, "named-0") == open_to(session, "every-0") == ["n1"]

    def test_no_selector_means_nobody_and_an_empty_one_everybody(self) -> None:
        cluster = one_web("a", "b", rules=asks(far(None)))
        cluster.job("every", rules=asks(far(())))
        session = cluster.open()
        assert open_to(session, "new-0") == ["n0", "n1"]
        assert open_to(session, "every-0") == ["n1"]

    def test_it_can_be_switched_off(self) -> None:
        cluster = zones("a", predicate_PodAffinityEnable=False)
        cluster.job("web", on=["n0"], members=marked(app="web"))
        cluster.job("new", rules=asks(far()))
        assert open_to(cluster.open(), "new-0") == ["n0"]


def test_only_classes_with_conditions_need_a_session() -> None:
    session = one_web("a", rules=asks(near(weight=5))).open()
    assert session.fast(task_of(session, "web-0").cls)
    bound = one_web("a", rules=asks(near())).open()
    assert not bound.fast(task_of(bound, "new-0").cls)


# --- properties -------------------------------------------------------------------------------

terms = st.builds(
    lambda app, key, anti: PodTerm(topology_key=key, selector=label("app", app), anti=anti),
    st.sampled_from("xyz"),
    st.sampled_from([ZONE, HOST]),
    st.booleans(),
)
jobs = st.lists(
    st.tuples(
        st.sampled_from("xyz"), st.lists(terms, max_size=2), st.integers(1, 3), st.booleans()
    ),
    min_size=1,
    max_size=5,
)


def crowd(names: list[str], described: list[Any], *, running: bool) -> Session:
    cluster = zones(*names, cpu=3)
    for i, (app, rules, tasks, runs) in enumerate(described):
        on = [f"n{(i + j) % len(names)}" for j in range(tasks)] if running and runs else []
        cluster.job(f"j{i}", tasks=tasks, on=on, rules=asks(*rules), members=marked(app=app))
    return cluster.open()


def in_domain(session: Session, key: str, row: int) -> Iterable[TaskInfo]:
    """Tasks on nodes that share a value of the key with this one."""
    world = session.world
    value = world.node(row).labels.get(key)
    for task in world.tasks() if value is not None else ():
        if task.row >= 0 and world.node(task.row).labels.get(key) == value:
            yield task


def meant(term: PodTerm, task: TaskInfo) -> bool:
    return matches(term.selector, dict(task.role.labels))


def terms_of(task: TaskInfo, *, anti: bool) -> list[PodTerm]:
    assert task.cls.constraints is not None
    return [term for term in task.cls.constraints.pod_terms if term.anti is anti]


def allowed(session: Session, task: TaskInfo, row: int) -> bool:
    """The rules as one would read them aloud."""
    world, expected = session.world, terms_of(task, anti=False)
    labels = world.node(row).labels
    group = [t for t in world.tasks() if t.row >= 0 and all(meant(w, t) for w in expected)]
    somewhere = any(w.topology_key in world.node(t.row).labels for w in expected for t in group)
    for term in expected:
        if term.topology_key not in labels:
            return False
        there = [t for t in in_domain(session, term.topology_key, row) if t in group]
        if not there and (somewhere or not all(meant(w, task) for w in expected)):
            return False
    for term in terms_of(task, anti=True):
        if any(meant(term, t) for t in in_domain(session, term.topology_key, row)):
            return False
    for other in world.tasks():
        if other.row >= 0:
            for term in terms_of(other, anti=True):
                near_it = in_domain(session, term.topology_key, row)
                if meant(term, task) and other in near_it:
                    return False
    return True


names = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4)


@settings(max_examples=examples(60), deadline=None)
@given(names, jobs)
def test_the_masks_say_what_the_rules_say(names: list[str], described: list[Any]) -> None:
    session = crowd(names, described, running=True)
    for task in session.world.tasks():
        if task.status is Status.PENDING:
            passes = [
                all(check.mask[row] for check in session.checks(task)) for row in range(len(names))
            ]
            assert passes == [allowed(session, task, row) for row in range(len(names))]


@settings(max_examples=examples(60), deadline=None)
@given(names, jobs)
def test_no_pod_is_placed_beside_one_that_its_terms_exclude(
    names: list[str], described: list[Any]
) -> None:
    session = crowd(names, described, running=False)
    place_all(session)
    for task in session.world.tasks():
        for term in terms_of(task, anti=True) if task.row >= 0 else ():
            near_it = in_domain(session, term.topology_key, task.row)
            assert not [t for t in near_it if t is not task and meant(term, t)]


@settings(max_examples=examples(40), deadline=None)
@given(names, jobs, st.data())
def test_counts_follow_placements_and_undone_placements(
    names: list[str], described: list[Any], data: st.DataObject
) -> None:
    session = crowd(names, described, running=True)
    tasks = list(session.world.tasks())

    def open_nodes() -> list[list[bool]]:
        every = np.ones(len(names), np.bool_)
        masks = ([every, *(check.mask for check in session.checks(t))] for t in tasks)
        return [np.logical_and.reduce(result).tolist() for result in masks]

    before = open_nodes()
    statement = WorldStatement(session)
    for task in tasks:
        if task.status is Status.PENDING:
            statement.pipeline(task, data.draw(st.integers(0, len(names) - 1)))
        elif data.draw(st.booleans()):
            statement.evict(task, "test")
        if data.draw(st.integers(0, 3)) == 0:
            open_nodes()
    after = open_nodes()
    undone = statement.rollback()
    assert open_nodes() == before
    statement.redo(undone)
    assert open_nodes() == after


def test_a_gang_that_keeps_apart_is_spread_over_hosts() -> None:
    cluster = zones("a", "a", "b")
    cluster.job("new", tasks=4, rules=asks(far(APP, HOST)), members=marked(app="web"))
    session = cluster.open()
    place_all(session)
    assert sorted(where(session).values()) == ["n0", "n1", "n2"]
