"""Mutations of who may write, and whose a node is (promise 4)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks


def _depose(history: History, event: Event) -> None:
    """Another has the writer's epoch, right before this event."""
    epoch = history.entry(event, "epoch")
    epoch["epoch"] = "99:ff"
    epoch["id"] = f"{event['id'].partition('-')[0]}-0"
    history.insert(epoch, before=event)
    event["id"] += "1"


@breaks(Rule.EPOCH)
def a_deposed_worker_commits(history: History) -> None:
    _depose(history, history.all("commit")[-1])


@breaks(Rule.EPOCH)
def a_deposed_leader_records(history: History) -> None:
    _depose(history, history.all("status")[-1])


@breaks(Rule.EPOCH)
def a_deposed_leader_stores(history: History) -> None:
    _depose(history, history.all("job")[-1])


@breaks(Rule.EPOCH)
def an_epoch_is_older_than_the_one_before(history: History) -> None:
    commit = history.all("commit")[-1]
    _depose(history, commit)
    for event in history.events[history.at(commit) - 1 :]:
        if event.get("writer") == commit["writer"]:
            event["epoch"] = "0:ff"


@breaks(Rule.EPOCH)
def a_worker_writes_the_statements_of_another_shard(history: History) -> None:
    commit = history.all("commit")[-1]
    commit["shard"] = str(1 - int(commit["shard"]))


@breaks(Rule.EPOCH)
def a_deposed_worker_is_refused_by_rules(history: History) -> None:
    """Even a refusal is an entry that its epoch should have kept out."""
    commit = history.all("commit")[-1]
    refusal = history.entry(commit, "refusal", shard=commit["shard"], refused=[[1, "FIT"]])
    refusal["epoch"] = "1:beef"
    history.insert(refusal, before=commit)
    commit["id"] += "1"


@breaks(Rule.BORDER)
def a_shard_takes_the_node_of_another_for_its_own(history: History) -> None:
    foreign = next(
        operation
        for event in history.all("commit")
        for statement in event["statements"]
        for operation in statement["alloc"]
        if operation[3] == 2
    )
    foreign[3] = 1


@breaks(Rule.BORDER)
def a_node_is_two_shards_own(history: History) -> None:
    shards = history.all("partition")[-1]["shards"]
    shards["0"] = [*shards["0"], shards["1"][0]]


@breaks(Rule.EPOCH)
def a_worker_records_the_states_of_tasks(history: History) -> None:
    """Under its own epoch, which has not ended."""
    status, worker = history.all("status")[10], history.all("commit")[0]
    status["writer"], status["epoch"] = worker["writer"], worker["epoch"]
