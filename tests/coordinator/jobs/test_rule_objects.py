"""Which KAI queues have others below them, as these come, move and go."""

from __future__ import annotations

from coordinator.jobs.rule_objects import drop_rule_object, put_rule_object
from shared.model.kai import KaiQueue, KaiShare
from shared.model.objects import ClusterObjects


def test_parents_are_those_of_the_queues_that_are_there() -> None:
    objects, share = ClusterObjects(), KaiShare()

    def put(name: str, parent: str) -> set[str]:
        put_rule_object(objects, KaiQueue(name, share, share, share, parent=parent))
        assert set(objects.kai_parents) == {one.parent for one in objects.kai_queues.values()}
        return set(objects.kai_parents)

    assert put("a", "top") == {"top"}
    assert put("b", "top") == {"top"}
    assert put("b", "other") == {"top", "other"}
    assert put("a", "other") == {"other"}
    assert put("a", "other") == {"other"}
    for name in "abb":
        drop_rule_object(objects, KaiQueue(name, share, share, share))
    assert not objects.kai_parents
