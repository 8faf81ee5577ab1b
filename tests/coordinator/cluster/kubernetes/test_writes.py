"""Meaning of answers to writes, the limit of requests, and reading of answers."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.cluster.kubernetes.api.concurrency import LOWEST, RequestLimit
from coordinator.cluster.kubernetes.api.objects import pod_of
from coordinator.cluster.kubernetes.api.pool import read_answer
from coordinator.cluster.kubernetes.writes.verdict import (
    BindRefusal,
    NextStep,
    PodVerdict,
    of_answer,
    of_pod,
)
from coordinator.cluster.protocol import BindAnswer
from tests.coordinator.cluster.kubernetes.events import pod

FORBIDDEN = b'{"reason":"Forbidden","message":"pods is forbidden: cannot create"}'
DENIED = b'{"reason":"Forbidden","message":"admission webhook \\"x\\" denied the request"}'


@pytest.mark.parametrize(
    ("code", "body", "meaning"),
    [
        (201, b"", BindAnswer.OK),
        (404, b"", BindAnswer.GONE),
        (409, b"", NextStep.LOOK),
        (429, b"", NextStep.WAIT),
        (403, FORBIDDEN, NextStep.WAIT),
        (500, b"", NextStep.LOOK),
        (504, b"", NextStep.LOOK),
    ],
)
def test_an_answer(code: int, body: bytes, meaning: object) -> None:
    assert of_answer(code, body) == meaning


def test_a_denial_is_the_nodes_and_a_missing_right_is_not() -> None:
    denied = of_answer(403, DENIED)
    assert isinstance(denied, BindRefusal)
    assert denied.reason == "Forbidden"


@pytest.mark.parametrize(
    ("answer", "looked"),
    [
        (None, PodVerdict(BindAnswer.GONE)),
        (pod("a", "other", node="n"), PodVerdict(BindAnswer.GONE)),
        (pod("a", "u", node="n"), PodVerdict(BindAnswer.ALREADY, "n")),
        (pod("a", "u", node="m"), PodVerdict(BindAnswer.ELSEWHERE, "m")),
        (pod("a", "u", leaving=True), PodVerdict(BindAnswer.GONE)),
        (pod("a", "u", version=7), PodVerdict(None, version="7")),
    ],
)
def test_a_look(answer: msgspec.Raw | None, looked: PodVerdict) -> None:
    assert of_pod(None if answer is None else pod_of(answer), uid="u", node="n") == looked


def test_the_limit_shrinks_once_for_open_turns_and_grows_again() -> None:
    limit = RequestLimit(96)
    for _ in range(50):
        limit.overloaded(1.0)
    assert limit.allowed == 67
    limit.overloaded(2.0, retry_after=3.0)
    assert (limit.allowed, limit.paused_until) == (47, 5.0)
    for _ in range(48):
        limit.served()
    assert limit.allowed == 48
    for at in range(100):
        limit.overloaded(10.0 + at)
    assert limit.allowed == LOWEST


def test_an_answer_is_whole_only_with_its_last_byte() -> None:
    head = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\nRetry-After: 3\r\n\r\n"
    for cut in range(len(head) + 3):
        assert read_answer((head + b"body")[:cut]) is None
    whole = read_answer(head + b"body")
    assert whole is not None
    answer, closes = whole
    assert (answer.code, answer.body, answer.retry_after, closes) == (201, b"body", 3.0, False)


def test_an_answer_in_chunks() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    text = head + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    for cut in range(len(text)):
        assert read_answer(text[:cut]) is None
    whole = read_answer(text)
    assert whole is not None
    assert (whole[0].body, whole[1]) == (b"abcde", True)


def test_an_answer_that_is_not_http_is_refused() -> None:
    with pytest.raises(ValueError, match="not HTTP"):
        read_answer(b"SSH-2.0-x\r\n\r\n")
