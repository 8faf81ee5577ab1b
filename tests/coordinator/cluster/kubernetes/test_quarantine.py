"""An object that cannot be read is left out alone, reported once, and its room counted."""

from __future__ import annotations

import msgspec
import orjson

from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook
from coordinator.cluster.kubernetes.bind_requests.objects import KIND
from coordinator.cluster.kubernetes.state.mirror import ObjectKey
from coordinator.cluster.protocol import Report
from tests.coordinator.cluster.kubernetes.events import admit, group, listed, pod, reports

ODD = ObjectKey("Pod", "default", "odd")


def unreadable(form: msgspec.Raw) -> msgspec.Raw:
    """The object with a label that is no text."""
    item = orjson.loads(bytes(form))
    item["metadata"]["labels"] = {"a": 1}
    return msgspec.Raw(orjson.dumps(item))


def test_a_pod_on_a_node_counts_there_and_is_told_once() -> None:
    mirror = listed()
    mirror.take("Pod", unreadable(pod("odd", node="n", cpu="3")))
    mirror.take("Pod", pod("good"))
    delta = mirror.take_delta(10)
    assert [key.name for key in delta.keys] == ["good"]
    [(key, unread)] = delta.unread
    assert (key, unread.uid) == (ODD, "uid-odd") and "labels" in str(unread.error)
    assert mirror.foreign.sums()["n"]["cpu"] == 3000
    assert not mirror.take_delta(10)
    mirror.remove("Pod", unreadable(pod("odd", node="n")))
    assert not mirror.foreign.sums() and not mirror.quarantine


def test_it_is_taken_once_it_can_be_read() -> None:
    mirror = listed()
    mirror.take("Pod", unreadable(pod("odd")))
    mirror.take("PodGroup", msgspec.Raw(b'{"metadata": {"name": 5, "uid": "g"}}'))
    assert len(mirror.take_delta(10).unread) == 2
    mirror.take("PodGroup", group("gang"))
    mirror.take("Pod", pod("odd", "other-uid", version=2))
    assert {key.name for key in mirror.take_delta(10).keys} == {"odd", "gang"}
    assert ODD not in mirror.quarantine


def test_a_task_stays_one_and_its_end_is_reported() -> None:
    mirror = listed(pod("odd"))
    admit(mirror, "odd")
    mirror.take("Pod", unreadable(pod("odd", node="n", phase="Running")))
    mirror.take("Pod", unreadable(pod("odd", node="n", phase="Succeeded")))
    kinds = [kind for kind, _, _ in reports(mirror)]
    assert kinds == [Report.BOUND, Report.STARTED, Report.SUCCEEDED]
    assert not mirror.foreign.sums(), "it counts as the task that it is"


def test_one_nested_too_deep_to_be_read_hides_no_other() -> None:
    mirror = listed()
    metadata = b'{"metadata": {"name": "odd", "namespace": "default", "uid": "u"}, "spec": '
    mirror.take("Pod", msgspec.Raw(metadata + b'{"a":' * 5000 + b"1" + b"}" * 5001))
    mirror.take("Pod", pod("good"))
    delta = mirror.take_delta(10)
    assert [key.name for key in delta.keys] == ["good"]
    assert len(delta.unread) == 1


async def test_a_bind_request_that_cannot_be_read_is_counted_and_left_out() -> None:
    book = BindRequestBook()
    good = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {}}
    odd = good | {"metadata": {"name": 7}}
    items = [msgspec.Raw(orjson.dumps(item)) for item in (odd, good)]
    await book.listed(KIND, items, first=True)
    await book.changed(KIND, [(False, items[0])])
    assert book.unread == 2 and [entry.request.metadata.name for entry in book] == ["a"]
