"""Mutations of the account of every task, and of binds that end (promises 6 and 8)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks


@breaks(Rule.TRANSITION)
def a_task_runs_that_was_never_placed(history: History) -> None:
    event, statement = history.placing("urgent")
    tix, row = statement["alloc"][0][:2]
    runs = history.entry(event, "status", items=[["RUNNING", statement["jid"], [tix], [row]]])
    runs["id"] = f"{event['id'].partition('-')[0]}-0"
    history.insert(runs, before=event)
    event["id"] += "1"


@breaks(Rule.TRANSITION)
def a_task_is_evicted_that_does_not_run_there(history: History) -> None:
    _, statement = history.evicting("preempt")
    statement["evict"][0][5][0] = 7


@breaks(Rule.TRANSITION)
def a_deleted_job_is_placed(history: History) -> None:
    event, statement = history.placing("next")
    gone = history.entry(event, "job_gone", jids=[statement["jid"]])
    gone["id"] = f"{event['id'].partition('-')[0]}-0"
    history.insert(gone, before=event)
    event["id"] += "1"


@breaks(Rule.ACCOUNT)
def the_cluster_takes_what_nobody_placed(history: History) -> None:
    bind = history.all("bind")[0]
    stranger = {**bind, "tasks": ["99.0"], "nodes": ["n6"], "uids": ["x"], "answers": ["OK"]}
    history.insert(stranger, before=bind)


def _bind_of(history: History, name: str) -> Event:
    jid = history.jid(name)
    return next(e for e in history.all("bind") if e["tasks"][0].startswith(f"{jid}."))


@breaks(Rule.ACCOUNT)
def a_pod_is_bound_before_its_commit(history: History) -> None:
    bind = _bind_of(history, "next")
    event, _ = history.placing("next")
    earlier = next(e for e in history.events if e["t"] >= event["t"] - 0.5)
    history.move(bind, before=earlier)
    bind["t"] = earlier["t"]


@breaks(Rule.ACCOUNT)
def a_pod_starts_before_its_commit(history: History) -> None:
    """Bind and start alike are in the file where they would be, with the times of another run."""
    event, _ = history.placing("next")
    jid = history.jid("next")
    for acts in (*history.all("bind"), *history.all("start")):
        if acts["tasks"][0].startswith(f"{jid}."):
            acts["t"] = event["t"] - 0.5


@breaks(Rule.ACCOUNT)
def the_ledger_knows_of_a_start_before_the_cluster_does(history: History) -> None:
    runs = history.status("even", "RUNNING")
    jid = history.jid("even")
    start = next(
        e for e in history.all("start") if any(t.startswith(f"{jid}.") for t in e["tasks"])
    )
    history.move(runs, before=start)


@breaks(Rule.ACCOUNT)
def a_pod_is_bound_under_the_uid_of_another_job(history: History) -> None:
    bind = _bind_of(history, "even")
    bind["uids"] = [history.job("odd")["uid"]] * len(bind["uids"])
    jid = history.jid("even")
    for event in history.events:
        if event["src"] == "cluster" and event is not bind and "uids" in event:
            event["uids"] = [
                bind["uids"][0] if task.startswith(f"{jid}.") and uid else uid
                for task, uid in zip(event["tasks"], event["uids"], strict=False)
            ]


@breaks(Rule.ACCOUNT)
def an_end_is_never_recorded(history: History) -> None:
    status = next(
        e for e in history.all("status") if any(item[0] == "SUCCEEDED" for item in e["items"])
    )
    status["items"] = [item for item in status["items"] if item[0] != "SUCCEEDED"]


@breaks(Rule.FREED)
def a_task_is_freed_before_the_cluster_says_that_it_ended(history: History) -> None:
    ended = history.all("succeeded")[0]
    jid = int(ended["tasks"][0].partition(".")[0])
    freed = next(
        e
        for e in history.all("status")
        if any(item[0] == "SUCCEEDED" and item[1] == jid for item in e["items"])
    )
    history.move(freed, before=ended)


@breaks(Rule.FREED)
def a_victim_is_pending_again_before_it_has_left(history: History) -> None:
    jid = history.jid("spare")
    freed = history.status("spare", "PENDING")
    left = next(
        e for e in history.all("failed") if any(t.startswith(f"{jid}.") for t in e["tasks"])
    )
    history.move(freed, before=left)


@breaks(Rule.ACKNOWLEDGED)
def an_acknowledged_job_is_gone_from_both_sides(history: History) -> None:
    history.without(history.jid("tolerant"))


@breaks(Rule.NUMBERING)
def the_clusters_events_are_in_another_order(history: History) -> None:
    first, *_, last = history.all("start")
    history.move(last, before=first)


@breaks(Rule.NUMBERING, numbers=True)
def an_event_of_the_ledger_is_missing(history: History) -> None:
    history.remove(history.status("even", "RUNNING"))


@breaks(Rule.NUMBERING, numbers=True)
def an_event_of_the_cluster_is_missing(history: History) -> None:
    history.remove(history.all("start")[1])


@breaks(Rule.TRANSITION, numbers=True)
def a_request_of_a_shard_is_missing(history: History) -> None:
    """The file was written by somebody who never saw the entry: its own numbers have no hole."""
    history.remove(next(e for e in history.all("commit") if e["writer"] == "0"))
    number = 0
    for event in history.events:
        if event["src"] == "ledger" and "more" not in event:
            number += 1
        if event["src"] == "ledger":
            event["n"] = number + ("more" in event)


@breaks(Rule.NUMBERING, numbers=True)
def a_part_of_an_entry_is_missing(history: History) -> None:
    history.remove(next(event for event in history.events if event.get("more")))


@breaks(Rule.BINDING_ENDS)
def a_task_stays_on_its_way(history: History) -> None:
    event, statement = history.placing("even")
    history.untold(f"{statement['jid']}.{statement['alloc'][0][0]}", after=event)
    history.wait(200.0, before=history.all("end")[0])
