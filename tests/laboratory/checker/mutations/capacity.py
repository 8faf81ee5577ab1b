"""Mutations of what nodes, devices and queues have room for (promise 2)."""

from __future__ import annotations

from typing import Any

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks

CPU = 0


def _leaving_order(history: History) -> tuple[Event, Event]:
    """The preemption, and the bind of those it was for."""
    _, statement = history.evicting("preempt")
    jid = statement["jid"]
    bind = next(e for e in history.all("bind") if e["tasks"][0].startswith(f"{jid}."))
    return statement, bind


@breaks(Rule.LEDGER_CAPACITY)
def a_node_is_smaller_than_what_is_placed(history: History) -> None:
    amounts = dict(history.node("n1")["allocatable"]) | {CPU: 2000}
    history.node("n1")["allocatable"] = [list(item) for item in amounts.items()]


@breaks(Rule.LEDGER_CAPACITY)
def two_tasks_share_a_host_port(history: History) -> None:
    both = [s["alloc"] for _, s in history.statements("door") if s["alloc"]]
    both[1][0][1] = both[0][0][1]


@breaks(Rule.LEDGER_CAPACITY)
def somebody_else_uses_what_is_nominated(history: History) -> None:
    event, statement = history.evicting("reclaim")
    row, others = statement["nominate"][0][1], history.placing("next")[1]
    commit_entry = history.entry(event, "commit", shard=event["shard"])
    tix, _, cid, level = others["alloc"][0]
    commit_entry["statements"] = [{**others, "alloc": [[tix, row, cid, level]], "dropped": []}]
    commit_entry["id"] += "1"
    history.insert(commit_entry, before=history.events[history.at(event) + 1])


@breaks(Rule.CLUSTER_CAPACITY)
def tasks_come_before_those_in_their_way_are_gone(history: History) -> None:
    _, bind = _leaving_order(history)
    victims = next(e for e in history.all("delete"))
    history.move(bind, before=victims)


@breaks(Rule.DEVICE_CAPACITY)
def two_tasks_take_the_same_device(history: History) -> None:
    """Each has 600 of a device of 1,000, on one node."""
    both = [
        device_entry
        for _, s in history.statements("share")
        for device_entry in s.get("devices", ())
    ]
    both[1][1][0][0] = both[0][1][0][0]


@breaks(Rule.DEVICE_CAPACITY)
def a_device_is_smaller_than_what_is_taken(history: History) -> None:
    for device in history.node("n6")["devices"]:
        device[1][1] = 500


@breaks(Rule.DEVICE_CAPACITY)
def a_device_is_taken_that_no_node_declares(history: History) -> None:
    del history.node("n6")["devices"]


def _written_on_pods(history: History) -> list[list[Any]]:
    """Write on the bound pods of a job what the ledger gave them, as on a Kubernetes cluster.
    Returns (name, amounts) of each, to be changed."""
    spec = {
        f"{statement['jid']}.{tix}": [list(device) for device in devices]
        for _, statement in history.statements("share")
        for tix, devices in statement.get("devices", ())
    }
    for bind in history.all("bind"):
        bind["devices"] = [spec.get(task, []) for task in bind["tasks"]]
    assert len(spec) == 2
    assert history.check().violations == ()
    return [devices[0] for devices in spec.values()]


@breaks(Rule.DEVICE_CAPACITY)
def one_device_is_on_two_pods(history: History) -> None:
    """The ledger has it right: it may be another one than that under which one pod was bound."""
    one, other = _written_on_pods(history)
    one[0] = other[0]


@breaks(Rule.DEVICES)
def a_pod_says_another_device_than_the_ledger(history: History) -> None:
    one, other = _written_on_pods(history)
    one[0], other[0] = other[0], one[0]


@breaks(Rule.DEVICES)
def a_pod_says_nothing_of_its_device(history: History) -> None:
    _written_on_pods(history)
    for bind in history.all("bind"):
        bind["devices"] = [[] for _ in bind["tasks"]]


@breaks(Rule.DEVICES)
def a_claim_wants_more_devices_than_there_are(history: History) -> None:
    report = history.value("claimtemplate/ns/one")["values"]["claimtemplate/ns/one"]
    report["requests"][0]["asks"][0]["count"] = 2


@breaks(Rule.DEVICES)
def a_claim_is_of_no_template(history: History) -> None:
    history.value("claimtemplate/ns/one")["values"].pop("claimtemplate/ns/one")


@breaks(Rule.DEVICES)
def the_devices_are_on_another_node(history: History) -> None:
    history.value("resourceslice/s5")["values"]["resourceslice/s5"]["node"] = "n4"


@breaks(Rule.CHARGED_QUEUE)
def a_job_is_charged_to_another_queue_than_it_names(history: History) -> None:
    history.job("red")["qid"] = history.job("other")["qid"]


@breaks(Rule.QUEUE_CAPABILITY)
def a_queue_may_hold_less_than_it_does(history: History) -> None:
    for event in history.all("queue"):
        for queue in event["queues"]:
            queue["capability"] = [[CPU, 2000]]


@breaks(Rule.NOMINATION_RANK)
def a_nomination_of_higher_rank_is_displaced(history: History) -> None:
    other = next(
        jid
        for event in history.all("commit")
        for statement in event["statements"]
        for jid in statement["dropped"]
        if jid != statement["jid"]
    )
    for event in history.all("job"):
        for job in event["jobs"]:
            if job["jid"] == other:
                job["priority"] = 100


@breaks(Rule.NOMINATION_END)
def what_was_displaced_had_ended_before(history: History) -> None:
    _, statement = history.placing("urgent")
    statement["dropped"].append(history.jid("firm"))


@breaks(Rule.NOMINATION_END)
def a_nomination_is_kept_beside_the_next_statement(history: History) -> None:
    _, statement = next((e, s) for e, s in history.statements("urgent") if s["alloc"])
    statement["dropped"] = []


@breaks(Rule.NOMINATION_END)
def a_nomination_outlasts_its_time(history: History) -> None:
    event, _ = history.evicting("preempt")
    history.wait(60.0, before=history.events[history.at(event) + 1])


@breaks(Rule.VICTIM_GUARANTEE)
def an_eviction_takes_what_is_guaranteed(history: History) -> None:
    """The statements do not say that they keep it: the policy does."""
    for event in history.all("commit"):
        for statement in event["statements"]:
            for run in statement.get("evict", ()):
                run[6] = 0
    for event in history.all("queue"):
        for queue in event["queues"]:
            queue["guarantee"] = [[CPU, 60_000]]
