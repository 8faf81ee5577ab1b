"""KAI's tree of queues in figures: what each has, is due and asks for, and whose turn is next.

The figures are those by which Order chooses: the same totals, divided and compared by the same
rules (:mod:`shard_worker.dialects.kai.rules`). For single questions only: it walks over all queues,
and over all jobs that wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.queue_position import waiting_entries
from coordinator.jobs.pending_tree import Entry
from coordinator.jobs.state import JobState, SchedulingStatus, amounts
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.rules.amounts import NOTHING, RESOURCES, UNLIMITED, Amounts
from shard_worker.dialects.kai.rules.fair_share import WEIGHT_ONE, fair_shares
from shard_worker.dialects.kai.rules.queue_order import Candidate, QueueFigures, compare, first
from shard_worker.dialects.kai.service.queues import QueueShares, demand_of, figures_of, share_of
from shared.model.kai import KaiQueue
from shared.policy.kai_usage import USAGE_ONE
from shared.policy.model import Policy
from shared.units.quantity import quantity, unit_of
from shared.units.queue_slots import NON_PREEMPTIBLE

Json = dict[str, Any]

API_VERSION = "quadrant.dev/v1alpha1"
NAMES = ("cpu", "memory", "nvidia.com/gpu")
"""The names of the resources that are divided, as users write them."""


@dataclass(slots=True)
class QueueBooks:
    """Input of one queue for the division: amounts with all queues below it."""

    record: KaiQueue
    allocated: Amounts = NOTHING
    non_preemptible: Amounts = NOTHING
    requested: Amounts = NOTHING
    usage: Amounts | None = None
    """Over time, in billionths of the cluster; None where nobody measures it."""
    pending: int = 0
    """Jobs that wait in it and below."""


@dataclass(slots=True)
class ShareTree:
    """The queues that count, and what was divided among them."""

    total: Amounts
    books: dict[str, QueueBooks]
    fair: dict[str, Amounts] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    """Parent ("" for the roots) -> its queues, those of higher priority first."""

    def figures(self, name: str) -> QueueFigures:
        books, fair_share = self.books[name], self.fair.get(name, NOTHING)
        return figures_of(books.record, fair_share=fair_share, allocated=books.allocated)

    def walk(self, parent: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
        """(queue, depth), each queue before those below it."""
        for name in self.children.get(parent, ()):
            yield name, depth
            yield from self.walk(name, depth + 1)


def divided(total: Amounts, books: Mapping[str, QueueBooks], *, k: Fraction) -> ShareTree:
    """Divide a total among queues. Those whose parent is not among them are left out, with all
    below them."""
    tree = ShareTree(total, dict(books))
    for name, own in sorted(books.items(), key=lambda item: (-item[1].record.priority, item[0])):
        tree.children.setdefault(own.record.parent, []).append(name)
    counted = [name for name, _ in tree.walk()]
    tree.books = {name: books[name] for name in counted}
    demands = [
        demand_of(own.record, own.requested, usage=own.usage or NOTHING)
        for own in map(books.__getitem__, counted)
    ]
    tree.fair = fair_shares(total, demands, k=k)
    return tree


def k_value(policy: Policy) -> Fraction:
    """How much usage of the past counts, as the plugin proportion is told."""
    options = (option for tier in policy.tiers for option in tier if option.name == "proportion")
    return Fraction(next((option.number("kValue", 1.0) for option in options), 1.0))


# --- of a running service -----------------------------------------------------------------------


def tree_of(core: Coordinator) -> ShareTree:
    """The queues of a running service, with open turns charged."""
    cluster, lines = core.order.accounts.cluster, core.order.lines.queues
    shares = core.order.session.queue_choice
    if not isinstance(shares, QueueShares):
        raise TypeError("the policy in force has no tree of fair shares")
    requested, usage = shares.requested(cluster), shares.usage(cluster)
    records = {record.name: record for record in shares.counted(cluster)}
    books = {
        name: QueueBooks(record, requested=requested.get(name, NOTHING), usage=usage.get(name))
        for name, record in records.items()
    }
    for qid, info in cluster.queues.items():
        figures = shares.figures(info, cluster)
        if figures is None or figures.uid not in books:
            continue
        books[figures.uid].allocated = figures.allocated
        non_preemptible = _non_preemptible(info.allocated, cluster.names)
        for queue in shares.chain(info):
            if (own := books.get(queue.queue.name)) is not None:
                own.non_preemptible = own.non_preemptible.plus(non_preemptible)
                own.pending += lines[qid].waiting if qid in lines else 0
    return divided(shares.total(cluster), books, k=shares.k)


def _non_preemptible(allocated: Mapping[int, int], names: Sequence[str]) -> Amounts:
    slots = {name: slot for slot, name in enumerate(names) if name in NON_PREEMPTIBLE}
    amounts = (allocated.get(slots[name], 0) if name in slots else 0 for name in NON_PREEMPTIBLE)
    return Amounts(*amounts)


# --- whose turn is next -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """Two siblings of which one goes first, and the step that told them apart."""

    first: str
    before: str
    step: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueTreeJob:
    queue: str
    job: str
    asks: Amounts
    decided: tuple[Decision, ...] = ()
    """From the root down, where there was a choice."""


def order_of(core: Coordinator, tree: ShareTree) -> list[QueueTreeJob]:
    """The next job of each queue that has one, in the order in which the queues get their turn, as
    things stand now."""
    heads = {job.queue: job for job in _heads(core, tree)}
    result: list[QueueTreeJob] = []
    while heads:
        best = _best(tree, "", heads)
        if best is None:
            break
        result.append(best)
        del heads[best.queue]
    return result


def _heads(core: Coordinator, tree: ShareTree) -> Iterator[QueueTreeJob]:
    served = _served(core)
    for qid, queue in core.order.lines.queues.items():
        name = queue.info.queue.name
        entries = [e for line in queue.lines.values() for e in waiting_entries(core, line)]
        entries += served.get(qid, [])
        state = core.order.jobs.get(min(entries)[2]) if entries and name in tree.books else None
        if state is not None and qid >= 0:
            yield QueueTreeJob(name, state.job.key, _asks(core, state))


def _served(core: Coordinator) -> dict[int, list[Entry]]:
    """Queue -> the jobs that have a turn, or will have one before those in its lines.

    Such a job stays the first of its queue until it is placed; else a reader who looks during a
    turn would be told that nobody waits.
    """
    order, served = core.order, dict[int, list[Entry]]()
    for state in order.jobs.values():
        if state.served and state.status is not SchedulingStatus.NOMINATED:
            key = order.session.job_key(state.info, order.accounts.cluster)
            entry = (key, state.job.created, state.job.jid, state.stamp)
            served.setdefault(state.info.qid, []).append(entry)
    return served


def _asks(core: Coordinator, state: JobState) -> Amounts:
    accounts = core.order.accounts
    requests = amounts(core.order.need_of(state), accounts.classes)
    return amounts_of(tuple(requests.items()), accounts.cluster.names)


def _best(tree: ShareTree, parent: str, heads: Mapping[str, QueueTreeJob]) -> QueueTreeJob | None:
    """The job that comes first below a queue, with the decisions on the way to it."""
    jobs: list[tuple[str, QueueTreeJob]] = []
    for name in tree.children.get(parent, ()):
        job = heads.get(name) or _best(tree, name, heads)
        if job is not None:
            jobs.append((name, job))
    if not jobs:
        return None
    candidates = [
        Candidate(tree.figures(name), cluster=tree.total, asks=job.asks) for name, job in jobs
    ]
    at = first(candidates)
    name, job = jobs[at]
    if len(jobs) == 1:
        return job
    others = [i for i in range(len(jobs)) if i != at]
    second = others[first([candidates[i] for i in others])]
    step = compare(candidates[at], candidates[second]).step
    decision = Decision(name, jobs[second][0], step.name, step.value)
    return QueueTreeJob(job.queue, job.job, job.asks, (decision, *job.decided))


# --- as JSON ------------------------------------------------------------------------------------


def tree_json(tree: ShareTree) -> Json:
    """The queues from the roots down, with their figures by resource."""
    return {
        "apiVersion": API_VERSION,
        "kind": "QueueTree",
        "total": texts(tree.total),
        "queues": [_queue_json(tree, name, depth) for name, depth in tree.walk()],
    }


def order_json(order: Sequence[QueueTreeJob]) -> list[Json]:
    return [
        {
            "queue": job.queue,
            "job": job.job,
            "asks": {name: text for name, text in texts(job.asks).items() if text != "0"},
            "decided": [
                {"first": d.first, "before": d.before, "step": d.step, "why": d.why}
                for d in job.decided
            ],
        }
        for job in order
    ]


def _queue_json(tree: ShareTree, name: str, depth: int) -> Json:
    own = tree.books[name]
    amounts_by_figure = {
        "quota": share_of(own.record, "quota"),
        "limit": share_of(own.record, "limit"),
        "fairShare": tree.fair.get(name, NOTHING),
        "allocated": own.allocated,
        "nonPreemptible": own.non_preemptible,
        "requested": own.requested,
    }
    resources = {
        resource: {
            figure: _text(NAMES[i], figures[i]) for figure, figures in amounts_by_figure.items()
        }
        | {"weight": _ratio(share_of(own.record, "weight")[i], WEIGHT_ONE)}
        | ({} if own.usage is None else {"usage": _ratio(own.usage[i], USAGE_ONE)})
        for i, resource in enumerate(RESOURCES)
    }
    return {
        "name": name,
        "parent": own.record.parent,
        "depth": depth,
        "priority": own.record.priority,
        "pending": own.pending,
        "resources": resources,
    }


def tree_figures(tree: ShareTree) -> Iterator[tuple[str, str, str, float]]:
    """(queue, resource, figure, value in wholes) of every queue; bounds that are none left out."""
    for name, _ in tree.walk():
        own = tree.books[name]
        figures = {
            "allocated": own.allocated,
            "non_preemptible": own.non_preemptible,
            "requested": own.requested,
            "fair_share": tree.fair.get(name, NOTHING),
            "quota": share_of(own.record, "quota"),
            "limit": share_of(own.record, "limit"),
        }
        for i, resource in enumerate(NAMES):
            for figure, figure_amounts in figures.items():
                if figure_amounts[i] != UNLIMITED:
                    yield name, resource, figure, figure_amounts[i] / unit_of(resource)
            if own.usage is not None:
                yield name, resource, "usage", own.usage[i] / USAGE_ONE


def share_figures(tree: ShareTree, name: str, resources: Sequence[str]) -> Json:
    """Figures of a queue for an explanation: name of the figure -> resource -> text."""
    own = tree.books[name]
    figures = {
        "allocated": own.allocated,
        "nonPreemptible": own.non_preemptible,
        "quota": share_of(own.record, "quota"),
        "fairShare": tree.fair.get(name, NOTHING),
        "capability": share_of(own.record, "limit"),
    }
    shown = {
        figure: {
            resource: text for resource, text in texts(amounts).items() if resource in resources
        }
        for figure, amounts in figures.items()
    }
    if own.usage is not None:
        shown["usage"] = {
            name: _ratio(own.usage[i], USAGE_ONE)
            for i, name in enumerate(NAMES)
            if name in resources
        }
    for figure in ("quota", "capability", "nonPreemptible"):
        nothing = "0" if figure == "nonPreemptible" else "unlimited"
        shown[figure] = {name: text for name, text in shown[figure].items() if text != nothing}
    return {figure: amounts for figure, amounts in shown.items() if amounts}


def texts(amounts: Amounts) -> dict[str, str]:
    """Amounts by the names of the resources, for people."""
    return {name: _text(name, amount) for name, amount in zip(NAMES, amounts, strict=True)}


def _text(resource: str, amount: int) -> str:
    return "unlimited" if amount == UNLIMITED else quantity(resource, amount)


def _ratio(value: int, one: int) -> str:
    return f"{value / one:g}"
