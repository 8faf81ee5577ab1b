"""KAI's queues as text: the tree with its figures, and who is next."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.cli.output.printing import cell

if TYPE_CHECKING:
    from coordinator.cli.client.session import ServerSession
    from coordinator.cli.output.printing import OutputForm

Json = Mapping[str, Any]

GROUP = "scheduling.run.ai"
TREE = "/apis/quadrant.dev/v1alpha1/queuetree"
HEADS = (
    "NAME",
    "RESOURCE",
    "QUOTA",
    "LIMIT",
    "WEIGHT",
    "FAIR-SHARE",
    "ALLOCATED",
    "NON-PREEMPTIBLE",
    "REQUESTED",
    "USAGE",
    "PENDING",
)
FIGURES = ("quota", "limit", "weight", "fairShare", "allocated", "nonPreemptible", "requested")
ORDER_HEADS = ("NEXT", "QUEUE", "JOB", "ASKS", "DECIDED BY")
_FIRST = ("gpu", "cpu", "memory")
_UNKNOWN = "-"


def tree_rows(tree: Json, *, every: bool, only: Collection[str] = ()) -> Iterator[list[str]]:
    """A row for each queue and resource, children indented below their parent. ``every``: resources
    too that the cluster has none of. ``only``: the queues to show; () for all."""
    total = dict(zip(("cpu", "memory", "gpu"), tree["total"].values(), strict=True))
    for queue in tree["queues"]:
        if only and queue["name"] not in only:
            continue
        name = "  " * queue["depth"] + queue["name"]
        for resource in _FIRST:
            if every or total[resource] != "0":
                figures = queue["resources"][resource]
                yield [
                    name,
                    resource,
                    *(cell(figures[figure]) for figure in FIGURES),
                    figures.get("usage", _UNKNOWN),
                    cell(queue.get("pending", _UNKNOWN)),
                ]


def chain_of(tree: Json, names: Sequence[str]) -> set[str]:
    """Queues, those above them, and their children."""
    parents = {queue["name"]: queue["parent"] for queue in tree["queues"]}
    chain = {name for name, parent in parents.items() if parent in names}
    for name in names:
        at = name
        while at in parents and at not in chain - {name}:
            chain.add(at)
            at = parents[at]
    return chain


def order_rows(tree: Json) -> Iterator[list[str]]:
    for place, entry in enumerate(tree["order"], 1):
        asks = ", ".join(f"{amount} {name}" for name, amount in entry["asks"].items())
        decided = "; ".join(
            f"{d['first']} before {d['before']}: {d['step']} ({d['why']})" for d in entry["decided"]
        )
        yield [
            str(place),
            entry["queue"],
            entry["job"],
            asks or "nothing",
            decided or "no other queue has a job",
        ]


def read_tree(api: ServerSession) -> Json:
    """Raises KubeError where the policy in force is not KAI's."""
    tree: Json = api.client.get(TREE)
    return tree


def print_tree(
    tree: Json, form: OutputForm, *, no_headers: bool = False, only: Collection[str] = ()
) -> None:
    from coordinator.cli.output.printing import TextColumns

    columns = TextColumns(HEADS, not no_headers)
    columns.rows(list(tree_rows(tree, every=form.word == "wide", only=only)))
