"""What a running pod says of itself alone, its image above all, does not keep it from eviction."""

from __future__ import annotations

import pytest

from tests.builders.objects import priority_class
from tests.laboratory.replay.build import FORMS, Json, decided, group, node, pod, policy

UNDER = policy(
    "enqueue, allocate, preempt, backfill", "priority", "gang", "predicates", "nodeorder"
)
PREFERENCE = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
PREFERRED = [{"weight": 1, "preference": PREFERENCE}]
OWN_WORDS: dict[str, Json] = {
    "an image": {"containers": [{"name": "c", "image": "busybox", "resources": {}}]},
    "a preferred node": {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}
    },
    "no wish to preempt": {"preemptionPolicy": "Never"},
}


def running(name: str, words: Json) -> Json:
    item = pod(name, group="low", on="n", cpu=2)
    [container] = item["spec"]["containers"]
    item["spec"] |= words | {"priorityClassName": "low"}
    item["spec"]["containers"][0]["resources"] = container["resources"]
    return item


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", OWN_WORDS.values(), ids=OWN_WORDS)
def test_it_is_evicted_for_a_pod_of_higher_priority(words: Json, form: str) -> None:
    classes = [priority_class("low", 10), priority_class("high", 100)]
    low = group("low", priorityClassName="low", phase="Running")
    high = pod("high-0", group="high", cpu=2)
    high["spec"]["priorityClassName"] = "high"
    items = [node("n"), *classes, low, *(running(f"low-{i}", words) for i in range(2))]
    items += [group("high", priorityClassName="high"), high]
    assert len(decided(form, *items, under=UNDER).evicted) == 1
