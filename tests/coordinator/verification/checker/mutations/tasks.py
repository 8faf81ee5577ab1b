"""Mutations of where one task is: bound once, and its requests judged once."""

from __future__ import annotations

from copy import deepcopy

from coordinator.verification.checker.report.rules import Rule
from tests.coordinator.verification.checker.mutating import History
from tests.coordinator.verification.checker.mutations.table import breaks


@breaks(Rule.BOUND_ONCE)
def the_cluster_takes_a_task_twice(history: History) -> None:
    bind = history.all("bind")[0]
    again = deepcopy(bind)
    again["nodes"] = ["n6"] * len(again["tasks"])
    history.insert(again, before=history.all("start")[-1])


@breaks(Rule.BOUND_ONCE)
def the_ledger_commits_a_task_twice(history: History) -> None:
    event, statement = history.placing("even")
    again = history.entry(event, "commit", shard=event["shard"])
    again["statements"] = [{**statement, "alloc": [[0, 6, *statement["alloc"][0][2:]]]}]
    history.insert(again, before=history.status("even", "RUNNING"))
    again["id"] += "1"


@breaks(Rule.BOUND_ONCE)
def a_task_starts_twice(history: History) -> None:
    start = history.all("start")[0]
    history.insert(deepcopy(start), before=history.all("start")[1])


@breaks(Rule.ONE_EFFECT, numbers=True)
def a_request_takes_effect_twice(history: History) -> None:
    status = history.all("status")[-1]
    again = {**status, "id": f"{int(status['id'].partition('-')[0])}-1", "items": []}
    history.events.insert(history.at(status) + 1, again)


@breaks(Rule.ONE_EFFECT, numbers=True)
def an_entry_of_the_log_is_told_twice(history: History) -> None:
    status = history.all("status")[3]
    history.events.insert(history.at(status) + 1, deepcopy(status))
