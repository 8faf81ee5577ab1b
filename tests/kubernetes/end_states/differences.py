"""Kinds of fields in which Quadrant leaves another end state than the scheduler that it replaces,
each with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.kubernetes.end_states.schedulers import Peer


@dataclass(frozen=True, slots=True)
class Difference:
    letter: str
    peer: Peer
    what: str
    """The field, in words."""
    reason: str
    field: str
    """Pattern of the fields' names."""
    explains: Callable[[str, str], bool]
    """Whether (theirs, ours) differ in this way and in no other."""


def _instead(theirs_alone: str, ours_alone: str) -> Callable[[str, str], bool]:
    """Events that one of both has."""
    return lambda theirs, ours: (
        _events(theirs) - _events(ours) <= _events(theirs_alone)
        and _events(ours) - _events(theirs) <= _events(ours_alone)
    )


def _events(text: str) -> set[str]:
    return set(text.split(", ")) - {""}


_STOPPED = (
    ("Inqueue", "Completed"),
    ("Scheduled True tasks in gang are ready to be scheduled", ""),
    ("", "2 failed"),
)
DIFFERENCES = (
    Difference(
        "a",
        Peer.VOLCANO,
        "condition of a PodGroup that is not admitted",
        "Volcano says it in an event alone, which expires; here it is a condition, too",
        r"PodGroup \w+: conditions",
        lambda theirs, ours: (theirs, ours) == ("", "Unschedulable True NotEnoughResources"),
    ),
    Difference(
        "b",
        Peer.VOLCANO,
        "reason of a PodGroup that lacks pods",
        "the gang lacks pods, and nothing is known about resources",
        r"PodGroup \w+: conditions",
        lambda theirs, ours: theirs.replace("NotEnoughResources", "NotEnoughTasks") == ours,
    ),
    Difference(
        "c",
        Peer.VOLCANO,
        "events of PodGroups",
        "`Scheduled` of one pod is an event of this pod, and of several one event of the PodGroup; "
        "that a PodGroup has no pods yet is no event; `Evicting` and `Nominated` say of the job "
        "that wins what Volcano says of the loser alone",
        "PodGroup: events",
        _instead(
            "Normal Scheduled, Normal Unschedulable, Warning Unschedulable",
            "Normal Evicting, Normal Nominated",
        ),
    ),
    Difference(
        "d",
        Peer.VOLCANO,
        "events of pods",
        "several pods that are evicted at once are one event of their PodGroup",
        "Pod: events",
        _instead("Warning Evict", ""),
    ),
    Difference(
        "e",
        Peer.VOLCANO,
        "PodGroup whose pods have been stopped and deleted",
        "the pods that the kubelet ended count as failed, and the PodGroup holds no promise; "
        "Volcano forgets them and admits it anew. New pods are placed all the same",
        r"PodGroup b: (phase|conditions|pods)",
        lambda theirs, ours: (theirs, ours) in _STOPPED,
    ),
    Difference(
        "f",
        Peer.KAI,
        "condition of a PodGroup that was placed",
        "KAI leaves the condition that it was unschedulable; here it is taken back",
        r"PodGroup \w+: schedulingConditions",
        lambda theirs, ours: "UnschedulableOnNodePool" in theirs and not ours,
    ),
    Difference(
        "g",
        Peer.KAI,
        "pods of a queue that is missing",
        "KAI says nothing of them; here the reason is `QueueDoesNotExist`",
        r"(PodGroup p: schedulingConditions|Pods p: PodScheduled|Pod: events|PodGroup: events)",
        lambda theirs, ours: not theirs and "Unschedulable" in ours,
    ),
    Difference(
        "h",
        Peer.KAI,
        "events of PodGroups",
        "one event says where all pods of a gang went; `Evicting` and `Nominated` say of the gang "
        "that wins what `Evict` says of the loser; `Evict` of one pod is an event of this pod",
        "PodGroup: events",
        _instead("Normal Evict", "Normal Scheduled, Normal Evicting, Normal Nominated"),
    ),
    Difference(
        "i",
        Peer.KAI,
        "events of pods that are evicted and nominated",
        "KAI writes `Evict` on the PodGroup and `Pipelined` on the pod that waits; here `Evict` of "
        "one pod is on the pod, and `Nominated` on the PodGroup",
        "Pod: events",
        _instead("Normal Pipelined", "Normal Evict"),
    ),
)
"""The first one that explains a difference is its kind."""


class Unexplained(Exception):
    pass


def difference(peer: Peer | str, field: str, theirs: str, ours: str) -> Difference:
    """The kind of this difference. Raises Unexplained."""
    for one in DIFFERENCES:
        if one.peer == peer and re.fullmatch(one.field, field) and one.explains(theirs, ours):
            return one
    raise Unexplained(f"{peer}: {field}: {theirs!r}, and of Quadrant {ours!r}")
