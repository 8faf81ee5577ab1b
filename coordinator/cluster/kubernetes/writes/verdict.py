"""Meaning of the answer to a binding, and of the pod read afterwards. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus

from coordinator.cluster.kubernetes.api.objects import PodObject, spec_of, status_of
from coordinator.cluster.protocol import BindAnswer


class NextStep(Enum):
    """Next step where the answer alone decides nothing."""

    LOOK = auto()
    """Read the pod: it may be bound, to us or to somebody else, or be another pod."""
    WAIT = auto()
    """Nothing happened: ask again later."""


@dataclass(frozen=True, slots=True)
class BindRefusal:
    """The server will not bind the pod to this node."""

    reason: str
    """The server's word for the kind of error, of a closed set."""
    message: str


def of_answer(code: int, body: bytes) -> BindAnswer | NextStep | BindRefusal:
    """A binding that was made answers 201. A second one answers 409, also for the same node; so
    does one whose uid or version is not the pod's, so that only the pod itself tells them apart."""
    match code:
        case HTTPStatus.CREATED | HTTPStatus.OK:
            return BindAnswer.OK
        case HTTPStatus.NOT_FOUND:
            return BindAnswer.GONE
        case HTTPStatus.CONFLICT:
            return NextStep.LOOK
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.UNAUTHORIZED:
            return NextStep.WAIT
        case HTTPStatus.BAD_REQUEST | HTTPStatus.FORBIDDEN | HTTPStatus.UNPROCESSABLE_ENTITY:
            status = status_of(body, code)
            # A right that is missing is the same on every node, and passes once it is given.
            if code == HTTPStatus.FORBIDDEN and "admission webhook" not in status.message:
                return NextStep.WAIT
            return BindRefusal(status.reason or "Refused", status.message)
        case _:
            return NextStep.LOOK


@dataclass(frozen=True, slots=True)
class PodVerdict:
    answer: BindAnswer | None
    """None: it is the same pod, and bound to nothing: the binding may be made again."""
    node: str = ""
    version: str = ""


def of_pod(pod: PodObject | None, *, uid: str, node: str) -> PodVerdict:
    """Judge from the pod whether the pod with this uid is bound to this node. None: it is gone."""
    if pod is None or pod.metadata.uid != uid:
        return PodVerdict(BindAnswer.GONE)
    on = spec_of(pod.spec).node_name
    if on:
        return PodVerdict(BindAnswer.ALREADY if on == node else BindAnswer.ELSEWHERE, on)
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
        return PodVerdict(BindAnswer.GONE)
    return PodVerdict(None, version=pod.metadata.resource_version)
