"""Scenarios of KAI that come out otherwise in a service, each with its reason and the forms in
which it does. ``docs/from-kai.md`` tells the same to users."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.forms import Form

ONE = frozenset({Form.ONE})
BOTH = frozenset({Form.ONE, Form.THREE_SOFT})

_GANG = "actions/allocate/allocateGang::getGangTestsMetadata::"
_MIG = "actions/allocate/allocateMIG::getMIGTestsMetadata::"
_PREEMPT = "actions/integration_tests/preempt/preempt::getPreemptTestsMetadata::"
_RECLAIM = "actions/integration_tests/reclaim/reclaim::getReclaimTestsMetadata::"

DIFFERS: Mapping[str, frozenset[Form]] = {
    # Pods of one gang are alike to the columns: which of them takes which of two equal nodes.
    f"{_GANG}Allocate build gang job on 2 nodes": ONE,
    # The columns of a worker do not say which nodes have legacy MIG pods.
    f"{_MIG}MIG job requesting MIG device on node with Legacy MIG jobs": BOTH,
    # A simulated kubelet stops every pod that it is told to: no pod is stuck while it leaves.
    f"{_PREEMPT}Job with a StuckInReleasing pod is not a preempt victim": BOTH,
    f"{_RECLAIM}Job with a StuckInReleasing pod is not a reclaim victim": BOTH,
    # A search in a worker knows the jobs of its scenario, and not all that wait: KAI lets a third
    # job, which does not fit, give the victim its turn first.
    f"{_RECLAIM}queue0 is over quota, queue1 is under quota, yet we don't reclaim because allocate "
    "will case a loop (this is a bug in allocate)": BOTH,
}
"""Scenario -> the forms in which it differs."""
