"""Jobs share a line, and what its first one lacks, only where all that placing reads is equal."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.model.constraints import Constraints, PodTerm, Requirement
from shared.model.model import Job, Queue
from shared.model.topology import SubGroupPolicy, Topology
from shared.policy.dialect import parse_policy
from shared.policy.kai_names import PLUGINS as KAI_PLUGINS
from shared.policy.volcano_names import PLUGINS_HERE
from tests.builders.rows import ONE, job, node

CLAIMING = replace(ONE, constraints=Constraints(claims=("data",)))
OF_TEMPLATE = replace(ONE, constraints=Constraints(claim_templates=("data",)))
VOLUME = replace(ONE, constraints=Constraints(volumes=("data",)))
LOUD = (Requirement("app", "In", ("loud",)),)
ALONE = replace(
    ONE, constraints=Constraints(pod_terms=(PodTerm("host", LOUD, namespaces=("x",), anti=True),))
)
CLASSES = {0: ONE, 1: CLAIMING, 2: OF_TEMPLATE, 3: VOLUME, 4: ALONE}
TOPOLOGY = Topology(hard=True, highest_tier=1)


def policy(*plugins: str, **more: Any) -> dict[str, Any]:
    return {"actions": "allocate", "tiers": [{"plugins": [{"name": n} for n in plugins]}], **more}


VOLCANO = policy(*sorted(PLUGINS_HERE))
KAI = policy(*sorted(KAI_PLUGINS), dialect="kai")


def lines_of(*jobs: Job, under: dict[str, Any] = VOLCANO) -> int:
    """The number of lines that the jobs stand in, beside a job that keeps ``app: loud`` away."""
    order = Order(open_session(parse_policy(under)))
    order.accounts.classes.update(CLASSES)
    order.put_queue(Queue(0, "a"))
    order.accounts.put_node(node(0))
    order.put_job(with_role(replace(job(9), namespace="x"), cid=4))
    for each in jobs:
        order.put_job(each)
    return len({order.jobs[each.jid].line.key for each in jobs})


def with_role(one: Job, **changes: Any) -> Job:
    return replace(one, roles=tuple(replace(role, **changes) for role in one.roles))


def annotations_read(under: dict[str, Any]) -> list[str]:
    return sorted(open_session(parse_policy(under)).reads)


@pytest.mark.parametrize("under", [VOLCANO, KAI], ids=["volcano", "kai"])
def test_an_annotation_that_a_rule_reads_parts_jobs(under: dict[str, Any]) -> None:
    read = annotations_read(under)
    assert read
    for key in read:
        a, b = (
            [with_role(job(jid), annotations=((key, value),)) for jid in range(2)]
            for value in ("a", "b")
        )
        assert lines_of(a[0], job(1), under=under) == 2, key
        assert lines_of(a[0], b[1], under=under) == 2, key
        assert lines_of(a[0], a[1], under=under) == 1, key
        of_job = replace(job(0), annotations=((key, "a"),))
        assert lines_of(of_job, job(1), under=under) == 2, key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (replace(job(0), topology=TOPOLOGY), job(1)),
        (replace(job(0), sub_groups=(SubGroupPolicy("s"),)), job(1)),
        (with_role(replace(job(0), namespace="x"), labels=(("app", "loud"),)), job(1)),
        (with_role(replace(job(0), namespace="x"), cid=4), with_role(job(1), cid=4)),
        (
            with_role(replace(job(0), namespace="x"), cid=4, labels=(("app", "loud"),)),
            with_role(replace(job(1), namespace="x"), cid=4),
        ),
        *(
            (with_role(replace(job(0), namespace="x"), cid=c), with_role(job(1), cid=c))
            for c in (1, 2, 3)
        ),
    ],
    ids=[
        "topology",
        "sub groups",
        "labels that others keep away",
        "namespace of a term",
        "labels that its own term selects",
        "claims",
        "claim templates",
        "volumes",
    ],
)
def test_what_a_session_reads_beside_the_class_parts_jobs(one: Job, other: Job) -> None:
    assert lines_of(one, other) == 2


def test_what_no_rule_reads_parts_nobody() -> None:
    named = (("job-name", "one"),)
    marked = with_role(
        replace(job(0), namespace="x", labels=named), labels=named, annotations=named
    )
    assert lines_of(marked, job(1), under=policy("gang", "predicates")) == 1


def test_a_rule_without_a_fast_form_may_read_whatever_a_pod_says() -> None:
    asking = {
        "actions": "allocate",
        "tiers": [
            {
                "plugins": [
                    {
                        "name": "extender",
                        "arguments": {
                            "extender.urlPrefix": "http://127.0.0.1:1",
                            "extender.predicateVerb": "predicate",
                        },
                    }
                ]
            }
        ],
    }
    assert lines_of(with_role(job(0), labels=(("a", "b"),)), job(1), under=asking) == 2
    assert lines_of(with_role(job(0), annotations=(("a", "b"),)), job(1), under=asking) == 2
    assert lines_of(job(0), job(1), under=asking) == 1
