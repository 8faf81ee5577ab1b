"""BindRequests without a server: what one means, and what the book makes of news about them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook
from coordinator.cluster.kubernetes.bind_requests.objects import (
    KIND,
    BindPhase,
    BindRequest,
    read_statement,
    request_of,
    written_request,
)
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.service.observed.kubernetes import check_binder
from shared.model.gpu_request import WHOLE
from shared.model.kai_devices import labels_of, shared_groups
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.settings.settings import SettingsError, load_settings

Json = dict[str, Any]
ROW = PodRow("pod-uid", "ns", "a")
KEY = "ns", "a"


def request(version: int = 1, uid: str = "r1", **status: object) -> Json:
    item = written_request(ROW, "n1", (), statement="l/3:ab/7-1", pool={})
    item["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return item | {"status": status}


def read(item: Json) -> BindRequest:
    return request_of(msgspec.json.encode(item))


def raw(item: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(item))


@pytest.mark.parametrize(
    ("limit", "status", "phase"),
    [
        (1, {}, BindPhase.WAITING),
        (1, {"phase": "Pending"}, BindPhase.WAITING),
        (None, {"phase": "Failed"}, BindPhase.FAILED),
        (1, {"phase": "Failed", "failedAttempts": 1}, BindPhase.FAILED),
        (3, {"phase": "Failed", "failedAttempts": 2}, BindPhase.WAITING),
        (3, {"phase": "Failed", "failedAttempts": 3}, BindPhase.FAILED),
        (None, {"phase": "Succeeded"}, BindPhase.SUCCEEDED),
    ],
)
def test_a_failure_is_the_end_once_the_limit_is_reached(
    limit: int | None, status: Json, phase: BindPhase
) -> None:
    item = request(**status)
    item["spec"]["backoffLimit"] = limit
    assert read(item).phase is phase


def test_it_has_the_label_of_its_node_pool() -> None:
    pool = {"kai.scheduler/node-pool": "blue"}
    request = written_request(ROW, "n1", (), statement="", pool=pool)
    assert request["metadata"]["labels"] == {"selected-node": "n1"} | pool


def test_it_says_the_devices_as_kais_scheduler_does() -> None:
    def spec(*devices: tuple[str, tuple[int, ...]]) -> Json:
        item: Json = written_request(ROW, "n1", devices, statement="", pool={})["spec"]
        return {key: item.get(key) for key in ("receivedResourceType", "receivedGPU")}

    assert spec(("kai-gpu/0", (WHOLE,)), ("kai-gpu/1", (WHOLE,))) == {
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 2, "portion": "1.00"},
    }
    assert spec(
        ("kai-gpu/0", (WHOLE * 7 // 100,)), ("kai-gpu/3", (WHOLE * 7 // 100,)), ("rdma/0", (1,))
    ) == {
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 2, "portion": "0.07"},
    }


def test_a_shared_device_has_one_id_in_the_whole_cluster() -> None:
    half = (("kai-gpu/0", (WHOLE // 2,)),)
    third = (("kai-gpu/0", (WHOLE * 33 // 100,)), ("kai-gpu/1", (WHOLE * 33 // 100,)))
    assert shared_groups(half, "n1")[0] == shared_groups(third, "n1")[0]
    assert shared_groups(half, "n1") != shared_groups(half, "n2")
    assert len({*shared_groups(third, "n1"), *shared_groups(third, "n2")}) == 4
    assert shared_groups((("kai-gpu/0", (WHOLE,)),), "n1") == []
    one, other = shared_groups(third, "n1")
    assert labels_of([one]) == {"runai-gpu-group": one}
    assert labels_of([one, other]) == {
        f"runai-gpu-group/{one}": one,
        f"runai-gpu-group/{other}": other,
    }


def test_a_request_of_other_devices_of_the_node_is_another_one() -> None:
    half = (("kai-gpu/0", (WHOLE // 2,)),)
    new_request = request()
    new_request["spec"]["selectedGPUGroups"] = shared_groups(half, "n1")
    assert read(new_request).asks("n1", half)
    assert not read(new_request).asks("n1", (("kai-gpu/1", (WHOLE // 2,)),))
    assert not read(new_request).asks("n2", half)
    assert read(request()).asks("n1", ())


def test_statements_are_ordered_by_epoch_and_entry_within_a_ledger() -> None:
    entries = [f"l/{epoch}:x/{entry}" for epoch in (2, 10) for entry in ("9-2", "9-10", "10-0")]
    read_ones = [read_statement(text) for text in entries]
    assert all(b.is_after(a) for a, b in pairwise(read_ones))
    assert not read_statement("other/11:x/1-0").is_after(read_ones[0])
    assert read_statement("").ledger == ""
    assert read(request()).statement == ("l", "3:ab", 3, (7, 1))


async def test_an_older_event_does_not_replace_a_newer_bind_request() -> None:
    """The watch may be behind the answer to our own request."""
    book = BindRequestBook()
    book.take(read(request(5, phase="Succeeded")))
    await book.changed(KIND, [(False, raw(request(4)))])
    entry = book.of(KEY)
    assert entry is not None
    assert entry.request.phase is BindPhase.SUCCEEDED
    await book.changed(KIND, [(True, raw(request(3, uid="r0")))])
    assert book.of(KEY) is entry, "an earlier one of the name is gone"
    await book.changed(KIND, [(True, raw(request(6)))])
    assert book.of(KEY) is None


async def test_a_list_ends_the_objects_that_it_lacks() -> None:
    book = BindRequestBook()
    assert not book.complete
    book.take(read(request()))
    with book.waiting([KEY]) as news:
        await book.listed(KIND, [], first=True)
        await book.list_ended(KIND)
        assert news.is_set()
    assert (book.complete, book.missing, book.of(KEY)) == (True, False, None)
    book.absent(KIND)
    assert (book.complete, book.missing) == (False, True)


async def test_a_waiter_is_woken_only_for_its_own_pods() -> None:
    book = BindRequestBook()
    with book.waiting([KEY]) as news:
        assert book.is_awaited(KEY)
        book.wake(("ns", "b"))
        assert not news.is_set()
        await book.changed(KIND, [(False, raw(request()))])
        assert news.is_set()
    assert not book.is_awaited(KEY)


def test_kais_binder_takes_a_policy_of_kais() -> None:
    settings = load_settings(in_cluster=True, binder="kai")
    with pytest.raises(SettingsError, match="Volcano's is in force; name one in QUADRANT_POLICY"):
        check_binder(settings, DEFAULT_POLICY)
    check_binder(settings, parse_policy({"dialect": "kai"}))
