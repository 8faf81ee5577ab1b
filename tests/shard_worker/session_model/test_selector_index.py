"""Terms and label sets find one another by labels: exactly as asking every pair would."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.order.cross_node import Spanning
from shard_worker.session_model.selector_index import (
    FILED_NAMESPACES,
    LabelIndex,
    LabelTerm,
    TermIndex,
)
from shared.messages.messages import Group
from shared.model.constraints import Constraints, PodTerm, Requirement, Selector
from shared.model.model import Job, Pairs, Role, TaskClass
from shared.model.storage import Budget
from shared.units.slots import CPU, PODS

SPACES = ("a", "b", "c")
KEYS = ("app", "tier", "zone")
VALUES = ("", "x", "y")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(
    lambda made: tuple(made.items())
)
values = st.lists(st.sampled_from(VALUES), max_size=3).map(tuple)
requirement = st.one_of(
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("In", "NotIn")), values),
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("Exists", "DoesNotExist")),
        st.just(()),
    ),
)
selector = st.none() | st.lists(requirement, max_size=3).map(tuple)
many = tuple(f"n{number}" for number in range(FILED_NAMESPACES))
spaces = st.one_of(
    st.none(),
    st.lists(st.sampled_from(SPACES), min_size=1, max_size=3).map(tuple),
    st.just((*many, "b")),
)
terms = st.builds(LabelTerm, spaces, selector)
pods = st.tuples(st.sampled_from(SPACES), labels)
dropped = st.sets(st.integers(0, 9))


@given(st.lists(terms, max_size=10), dropped, pods)
def test_a_pod_finds_the_terms_that_select_it(
    every: list[LabelTerm], gone: set[int], pod: tuple[str, Pairs]
) -> None:
    index = TermIndex[int]()
    for number, term in enumerate(every):
        index.add(number, term)
    for number in gone:
        index.discard(number)
    namespace, as_dict = pod[0], dict(pod[1])
    assert index.selecting(namespace, as_dict) == [
        number
        for number, term in enumerate(every)
        if number not in gone and term.selects(namespace, as_dict)
    ]


@given(st.lists(pods, max_size=10), dropped, terms)
def test_a_term_finds_the_pods_that_it_selects(
    every: list[tuple[str, Pairs]], gone: set[int], term: LabelTerm
) -> None:
    index = LabelIndex[int]()
    for number, pod in enumerate(every):
        index.add(number, *pod)
    for number in gone:
        index.discard(number)
    assert index.selected(term) == [
        number
        for number, (namespace, own) in enumerate(every)
        if number not in gone and term.selects(namespace, dict(own))
    ]


def test_an_index_that_lost_everything_is_empty() -> None:
    """Nothing stays behind of what comes and goes for as long as the coordinator leads."""
    terms, pods = TermIndex[int](), LabelIndex[int]()
    term = LabelTerm(("a",), (Requirement("app", "In", ("x", "y")),))
    terms.add(1, term)
    pods.add(1, "a", (("app", "x"),))
    terms.discard(1)
    pods.discard(1)
    assert not any(vars(terms)[name] for name in ("_terms", "_buckets"))
    assert not any(vars(pods)[name] for name in ("_members", "_spaces", "_keys", "_values"))


# --- jobs and what spans them ---------------------------------------------------------------------

rules = st.lists(
    st.builds(
        PodTerm,
        topology_key=st.just("kubernetes.io/hostname"),
        selector=selector,
        namespaces=st.just(()) | st.just(("a", "b")),
        all_namespaces=st.booleans(),
        anti=st.booleans(),
        weight=st.just(0),
    ),
    max_size=2,
).map(tuple)


def job(jid: int, namespace: str, roles: list[Pairs], cids: list[int]) -> Job:
    return Job(
        jid=jid,
        namespace=namespace,
        name=f"j{jid}",
        kind="Job",
        uid=f"u{jid}",
        queue="default",
        created=float(jid),
        priority=0,
        groups=(Group(parent=-1, minimum=1),),
        roles=tuple(
            Role(name=f"r{n}", cid=cid, first=n, count=1, labels=own)
            for n, (own, cid) in enumerate(zip(roles, cids, strict=True))
        ),
    )


REQUESTS = ((CPU, 1000), (PODS, 1))
step = st.one_of(
    st.tuples(
        st.just("put"),
        st.integers(0, 4),
        st.sampled_from(SPACES),
        st.lists(st.tuples(labels, rules), min_size=1, max_size=2),
    ),
    st.tuples(st.just("drop"), st.integers(0, 4)),
    st.tuples(st.just("budget"), st.integers(0, 1), st.sampled_from(SPACES), selector),
    st.tuples(st.just("no budget"), st.integers(0, 1), st.sampled_from(SPACES)),
)


@given(st.lists(step, max_size=12))
def test_the_members_of_every_term_are_the_jobs_that_it_selects_or_binds(steps: list[Any]) -> None:
    """For any arrivals, changes and departures in any order."""
    spanning = Spanning()
    classes: dict[int, TaskClass] = {}
    jobs: dict[int, Job] = {}
    budgets: dict[tuple[int, str], Selector | None] = {}
    for item in steps:
        match item:
            case ("put", jid, namespace, roles):
                cids = []
                for _, own in roles:
                    cids.append(len(classes))
                    limits = Constraints(pod_terms=own) if own else None
                    classes[cids[-1]] = TaskClass(requests=REQUESTS, constraints=limits)
                jobs[jid] = job(jid, namespace, [own for own, _ in roles], cids)
                spanning.put_job(jobs[jid], classes)
            case ("drop", jid):
                jobs.pop(jid, None)
                spanning.drop_job(jid)
            case ("budget", number, namespace, asked):
                budgets[number, namespace] = asked
                spanning.put_object(Budget(namespace, f"b{number}", asked))
            case ("no budget", number, namespace):
                budgets.pop((number, namespace), None)
                spanning.drop_object(Budget(namespace, f"b{number}", None))
            case _:
                raise AssertionError(item)
    assert members(spanning, jobs) == by_scan(jobs, classes, budgets)


def members(spanning: Spanning, jobs: dict[int, Job]) -> dict[int, list[set[int]]]:
    """Members of each job's keys."""
    results = {}
    for jid in jobs:
        sets = [spanning.members([key]) for key in spanning.keys(jid)]
        results[jid] = sorted(sets, key=sorted)
    return results


def by_scan(
    jobs: dict[int, Job],
    classes: dict[int, TaskClass],
    budgets: dict[tuple[int, str], Selector | None],
) -> dict[int, list[set[int]]]:
    bound: dict[tuple[str, LabelTerm], set[int]] = {}
    for (number, namespace), selector in budgets.items():
        bound.setdefault((f"budget {number}", LabelTerm((namespace,), selector)), set())
    for own in jobs.values():
        for role in own.roles:
            limits = classes[role.cid].constraints
            for term in () if limits is None else limits.pod_terms:
                spaces = tuple(sorted(term.namespaces or (own.namespace,)))
                asks = LabelTerm(None if term.all_namespaces else spaces, term.selector)
                bound.setdefault(("", asks), set()).add(own.jid)
    members = {
        key: own
        | {
            other.jid
            for other in jobs.values()
            if any(key[1].selects(other.namespace, dict(role.labels)) for role in other.roles)
        }
        for key, own in bound.items()
    }
    return {
        jid: sorted((members[key] for key in members if jid in members[key]), key=sorted)
        for jid in jobs
    }


def test_a_job_with_a_term_of_its_own_costs_the_same_with_five_thousand_of_them() -> None:
    """Counted are the terms and label sets that are judged when one more comes."""

    def looks(count: int) -> tuple[int, int]:
        spanning = Spanning()
        classes: dict[int, TaskClass] = {}
        before = (0, 0)
        for jid in range(count + 1):
            before = (spanning._selecting.looks, spanning._labels.looks)
            own = Requirement("app", "In", (f"j{jid}",))
            shared = Requirement("part-of", "In", ("suite",))
            term = PodTerm("kubernetes.io/hostname", (shared, own), anti=True)
            limits = Constraints(pod_terms=(term,))
            classes[jid] = TaskClass(requests=REQUESTS, constraints=limits)
            had = (("app", f"j{jid}"), ("part-of", "suite"))
            spanning.put_job(job(jid, "a", [had], [jid]), classes)
            assert spanning.members(spanning.keys(jid)) == {jid}
        return spanning._selecting.looks - before[0], spanning._labels.looks - before[1]

    assert looks(5_000) == looks(50)
    assert max(looks(50)) <= 2
