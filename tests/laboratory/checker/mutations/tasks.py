"""Mutations of where one task is: bound once, and its requests judged once."""

from __future__ import annotations

from copy import deepcopy

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.mutations.table import breaks


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


@breaks(Rule.TRANSITION)
def a_task_is_placed_as_one_of_a_smaller_class(history: History) -> None:
    small = {"cid": 99, "requests": [[2, 1, 0]], "best_effort": False}
    history.all("class")[0]["classes"].append(small)
    _, statement = history.placing("next")
    statement["alloc"][0][2] = small["cid"]


@breaks(Rule.TRANSITION)
def what_runs_begins_anew(history: History) -> None:
    history.remove(history.status("again", "SUCCEEDED"))


@breaks(Rule.TRANSITION)
def a_pod_begins_anew_that_no_job_makes(history: History) -> None:
    history.job("again")["named"] = True


@breaks(Rule.TRANSITION)
def what_was_deleted_begins_anew(history: History) -> None:
    jid = history.jid("again")
    gone = next(event for event in history.all("job_gone") if jid in event["jids"])
    history.move(gone, before=history.status("again", "PENDING"))


@breaks(Rule.BOUND_ONCE)
def what_begins_anew_is_the_incarnation_that_ended(history: History) -> None:
    name = f"{history.jid('again')}.0"
    first, second = (event for event in history.all("bind") if name in event["tasks"])
    second["uids"] = [first["uids"][first["tasks"].index(name)]] * len(second["uids"])


@breaks(Rule.FREED)
def what_begins_anew_has_not_ended(history: History) -> None:
    name = f"{history.jid('again')}.0"
    ends = [event for event in history.all("succeeded") if name in event["tasks"]]
    history.move(ends[0], before=ends[1])


@breaks(Rule.ONE_EFFECT)
def a_refused_statement_takes_effect(history: History) -> None:
    _, statement = history.placing("next")
    statement["verdict"] = "FIT"


@breaks(Rule.TRANSITION)
def a_job_gets_the_number_of_another(history: History) -> None:
    taken = history.job("tolerant")
    history.all("job")[3]["jobs"].append({**taken, "key": "ns/newcomer", "uid": "ns/newcomer#0"})


@breaks(Rule.TRANSITION)
def an_older_specification_returns(history: History) -> None:
    before = deepcopy(history.job("next"))
    history.job("next")["spec"] += 1
    history.all("job")[-1]["jobs"].append(before)


@breaks(Rule.TRANSITION)
def two_jobs_are_the_same_object(history: History) -> None:
    """Nothing in the cluster's events tells: they name the pods of both by one UID."""
    job, uid = history.job("next"), history.job("odd")["uid"]
    own, job["uid"] = job["uid"], uid
    for event in history.events:
        if event["src"] == "cluster" and "uids" in event:
            event["uids"] = [uid if other == own else other for other in event["uids"]]
