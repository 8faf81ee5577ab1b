"""``quadrant queue pairs`` for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shared.units.amount_text import plural, some

if TYPE_CHECKING:
    from coordinator.cli.client.session import ServerSession

Json = dict[str, Any]

PAIRS = "/apis/quadrant.dev/v1alpha1/queuepairs"
HEADS = ("RESOURCE", "QUEUE", "LACKS", "FROM", "HOURS")


def read_pairs(api: ServerSession, resource: str) -> Json:
    """Raises KubeError where the policy in force has no shares, or does not share the resource."""
    answer: Json = api.client.get(PAIRS, {"resource": resource} if resource else {})
    return answer


def pair_rows(answer: Json) -> Iterator[list[str]]:
    """The pairs of now, then those that have only hours."""
    for one in answer["resources"]:
        for pair in one["pairs"]:
            place = pair["borrower"] or f"({pair['holder']})"
            hours = f"{pair['hours']:.3f}"
            yield [one["resource"], pair["queue"], pair["amount"], place, hours]
        if others := one["otherHours"]:
            yield [one["resource"], "(others)", "", "", f"{others:.3f}"]


def sentences(answer: Json) -> Iterator[str]:
    """A sentence for each queue that lacks something."""
    for one in answer["resources"]:
        resource = one["resource"]
        for queue in one["recovery"]:
            parts = some(
                f"{pair['amount']} {_place(pair)}"
                for pair in one["pairs"]
                if pair["queue"] == queue["queue"] and pair["amount"] != "0"
            )
            yield (
                f"queue {queue['queue']} lacks {queue['lacks']} {resource} of its share ({parts}): "
                f"{_back(queue, reclaims=answer['reclaim'])}"
            )
        if not one["recovery"]:
            count = sum(queue["borrows"] != "0" for queue in one["queues"])
            borrowers = f"; {plural(count, 'queue')} above the share: {one['borrowed']}"
            yield f"no queue lacks {resource}{borrowers if count else ''}"
    if not answer["resources"]:
        yield "no queue lacks anything: the cluster has no nodes"


def _back(queue: Json, *, reclaims: bool) -> str:
    if reclaims:
        text = f"reclaim may take back up to {queue['reclaimable']}"
    else:
        text = "the policy has no reclaim, so it gets back only the room of tasks that end"
    idle = queue["idleOfOthers"]
    return text if idle == "0" else f"{text}; other queues do not ask for {idle} of their quota"


def _place(pair: Json) -> str:
    match pair["holder"]:
        case "queue":
            return f"with queue {pair['borrower']}"
        case "others":
            return "with other queues"
        case _:
            return "free, but not usable yet"
