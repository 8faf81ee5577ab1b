"""Objects in a node pool."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.model.model import Job, Role
from shared.model.node_pool import NodePool, node_pool_of
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY

KEY = "kai.scheduler/node-pool"
BLUE, DEFAULT = NodePool(KEY, "blue"), NodePool(KEY, "")


@pytest.mark.parametrize(
    ("labels", "in_blue", "in_default"),
    [
        ({}, False, True),
        ({"zone": "blue"}, False, True),
        ({KEY: "blue"}, True, False),
        ({KEY: "red"}, False, False),
        ({KEY: ""}, False, False),
    ],
)
def test_an_object_is_in_the_pool_that_its_label_names(
    labels: dict[str, str], in_blue: bool, in_default: bool
) -> None:
    assert BLUE.has(labels) is in_blue
    assert DEFAULT.has(labels) is in_default


def test_pods_are_where_their_group_is_and_a_pod_alone_where_it_says() -> None:
    pod = Role("r", 0, 0, 1, 0, labels=((KEY, "blue"),))
    alone = Job(1, "ns", "a", "Pod", "u", "q", 0.0, roles=(pod,))
    assert BLUE.has_job(alone)
    group = replace(alone, kind="PodGroup")
    assert DEFAULT.has_job(group)
    assert BLUE.has_job(replace(group, labels=((KEY, "blue"),)))
    assert not BLUE.has_job(group)
    assert BLUE.has_job(replace(group, dangling=True)), "its PodGroup may come in any pool"


def test_the_policy_names_the_pool() -> None:
    options = {"nodepool-label-key": "pool", "partition-label-value": "blue"}
    assert node_pool_of(parse_policy({"dialect": "kai", "options": options})) == NodePool(
        "pool", "blue"
    )
    assert node_pool_of(parse_policy({"dialect": "kai"})) == DEFAULT
    assert node_pool_of(DEFAULT_POLICY) is None


def test_an_object_outside_names_its_node_pool_and_ours() -> None:
    assert BLUE.why_not({KEY: "red"}) == (
        "in node pool red, and this scheduler has node pool blue: what has the label "
        "kai.scheduler/node-pool: blue"
    )
    assert BLUE.why_not({}).startswith("in node pool default, and")
