"""Mutations of what evicting may do (promise 9)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks


@breaks(Rule.EVICTION_REASON)
def somebody_is_evicted_for_nobody(history: History) -> None:
    _, statement = history.evicting("preempt")
    statement["nominate"] = []


@breaks(Rule.EVICTION_REASON)
def somebody_is_evicted_for_another_than_was_said(history: History) -> None:
    _, statement = history.evicting("preempt")
    statement["reason"] = statement["reason"].replace("urgent", "next")


@breaks(Rule.EVICTION_REASON)
def an_action_evicts_that_the_policy_does_not_have(history: History) -> None:
    _, statement = history.evicting("preempt")
    statement["reason"] = statement["reason"].replace("preempt", "gangpreempt")


@breaks(Rule.EVICTION_REASON)
def rules_decide_that_the_policy_does_not_have(history: History) -> None:
    _, statement = history.evicting("preempt")
    statement["reason"] = "preempt (drf): for ns/urgent-t-0"


@breaks(Rule.EVICTION_REASON)
def preempt_evicts_in_another_queue(history: History) -> None:
    _, statement = history.evicting("reclaim (gang")
    statement["reason"] = statement["reason"].replace("reclaim", "preempt")


@breaks(Rule.EVICTION_REASON)
def reclaim_takes_from_a_queue_that_gives_nothing_back(history: History) -> None:
    for event in history.all("queue"):
        for queue in event["queues"]:
            queue["reclaimable"] = False


@breaks(Rule.RECLAIM_CLAIM)
def a_queue_reclaims_that_deserves_nothing(history: History) -> None:
    for event in history.all("queue"):
        for queue in event["queues"]:
            if queue["name"] == "red":
                del queue["deserved"]


@breaks(Rule.RECLAIM_CLAIM)
def a_queue_reclaims_that_holds_what_it_deserves(history: History) -> None:
    for event in history.all("queue"):
        for queue in event["queues"]:
            if queue["name"] == "red":
                queue["deserved"] = [[0, 999]]


@breaks(Rule.VICTIM_NEEDED)
def one_more_is_evicted_than_the_job_needs(history: History) -> None:
    """On the same node, and of a job that another victim is of."""
    history.evict_too(*history.evicting("reclaim"))


@breaks(Rule.VICTIM_NEEDED)
def one_is_evicted_on_a_node_that_nobody_gets(history: History) -> None:
    history.evict_too(*history.evicting("reclaim"), besides=history.evicted_rows())


@breaks(Rule.EVICTION_REASON)
def somebody_is_evicted_who_is_not_preemptable(history: History) -> None:
    _set_roles(history, "spare", {"preemptable": False})


def _set_roles(history: History, name: str, event: Event) -> None:
    job = history.job(name)
    job["roles"] = [
        [*role[:4], {**(role[4] if len(role) > 4 else {}), **event}] for role in job["roles"]
    ]


@breaks(Rule.EVICTION_POLICY)
def somebody_is_preempted_who_is_as_important(history: History) -> None:
    history.job("spare")["priority"] = 10


@breaks(Rule.EVICTION_POLICY)
def a_pod_is_evicted_that_keeps_the_cluster_alive(history: History) -> None:
    _set_roles(history, "spare", {"class": "system-node-critical"})


@breaks(Rule.EVICTION_POLICY)
def a_drain_breaks_a_budget(history: History) -> None:
    history.value("budget/ns/kept")["values"]["budget/ns/kept"]["min_available"] = "2"


@breaks(Rule.EVICTION_REASON)
def a_drain_gives_somebody_the_room(history: History) -> None:
    _, statement = history.evicting("evict: for")
    statement["nominate"] = [[0, 0, statement["evict"][0][2], 3]]


@breaks(Rule.EVICTION_POLICY)
def a_budget_is_overdrawn(history: History) -> None:
    history.value("budget/ns/steady")["values"]["budget/ns/steady"]["min_available"] = "4"
