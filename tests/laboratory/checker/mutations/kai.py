"""Mutations of what a KAI policy keeps: queue bounds (promise 2), gangs in trees (promise 3), and
who is left alone (promise 9)."""

from __future__ import annotations

from typing import Any

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks


def _share(history: History, queue: str) -> Event:
    """GPU share in the first record of a queue."""
    key = f"kaiqueue/{queue}"
    share: Event = history.value(key)["values"][key]["gpu"]
    return share


@breaks(Rule.QUEUE_TREE, of_kai=True)
def a_queue_has_a_lower_limit_than_its_capability_says(history: History) -> None:
    _share(history, "red")["limit"] = 3000


@breaks(Rule.QUEUE_TREE, of_kai=True)
def a_queue_above_has_a_lower_limit(history: History) -> None:
    _share(history, "all")["limit"] = 6000


@breaks(Rule.QUEUE_TREE, of_kai=True)
def a_queue_says_nothing_of_a_limit_which_is_none_at_all(history: History) -> None:
    del _share(history, "blue")["limit"]


@breaks(Rule.QUEUE_TREE, of_kai=True)
def a_gang_that_may_not_be_evicted_is_beyond_its_quota(history: History) -> None:
    key = "kaipodgroup/ns/train"
    history.value(key)["values"][key]["preemptible"] = False


@breaks(Rule.QUEUE_TREE, of_kai=True)
def a_pod_of_a_high_priority_is_beyond_a_quota_above(history: History) -> None:
    """A pod that is a group of its own may not be evicted where its priority is 100 or more."""
    _share(history, "all")["quota"] = 0
    for event in history.all("job"):
        for job in event["jobs"]:
            if job["key"] == "ns/alone":
                job["priority"] = 100


def _group(history: History) -> Event:
    """First record of the gang with two pod sets."""
    key = "kaipodgroup/ns/train"
    group: Event = history.value(key)["values"][key]
    return group


@breaks(Rule.GANG_WHOLE, of_kai=True)
def a_pod_set_needs_more_than_it_got(history: History) -> None:
    """The gangs that the ledger was told of do not say so."""
    _group(history)["sub_groups"][1]["min_member"] = 4


@breaks(Rule.GANG_WHOLE, of_kai=True)
def a_group_above_others_needs_all_of_them(history: History) -> None:
    """One of two children is there, of which the ledger was told nothing."""
    group = _group(history)
    lead, work = group["sub_groups"]
    absent = {"name": "absent", "parent": "top", "min_member": 1}
    group["sub_groups"] = [lead, {"name": "top"}, {**work, "parent": "top"}, absent]


def _queue(history: History, name: str) -> Event:
    """The first record of a queue."""
    key = f"kaiqueue/{name}"
    queue: Event = history.value(key)["values"][key]
    return queue


@breaks(Rule.MIN_RUNTIME, of_kai=True)
def a_queue_keeps_its_jobs_from_a_reclaim_for_longer(history: History) -> None:
    _queue(history, "rich")["reclaim_min_runtime"] = 1000.0


@breaks(Rule.MIN_RUNTIME, of_kai=True)
def the_policy_keeps_jobs_of_every_queue_for_longer(history: History) -> None:
    del _queue(history, "rich")["reclaim_min_runtime"]
    (event,) = history.all("policy")
    for tier in event["policy"]["tiers"]:
        for plugin in tier:
            if plugin["name"] == "minruntime":
                plugin["arguments"] = {"defaultReclaimMinRuntime": "1h0m0.5s"}


@breaks(Rule.MIN_RUNTIME, of_kai=True)
def a_victim_had_only_begun_to_run(history: History) -> None:
    event, statement = history.evicting("reclaim")
    jid, _, _, _, tasks, *_ = statement["evict"][0]
    start = next(e for e in history.all("start") if f"{jid}.{tasks[0]}" in e["tasks"])
    start["t"] = event["t"] - 0.5


@breaks(Rule.CHARGED_QUEUE, of_kai=True)
def a_pod_group_names_another_queue_than_its_job_is_charged_to(history: History) -> None:
    _group(history)["queue"] = "rich"


@breaks(Rule.RECLAIM_CLAIM, of_kai=True)
def a_queue_reclaims_beyond_its_quota_without_a_weight(history: History) -> None:
    share = _share(history, "poor")
    share["quota"] = 1000
    del share["weight"]


@breaks(Rule.RECLAIM_CLAIM, of_kai=True)
def a_queue_reclaims_beyond_its_limit(history: History) -> None:
    _share(history, "poor")["limit"] = 1000


@breaks(Rule.VICTIM_NEEDED, of_kai=True)
def kais_reclaim_evicts_one_more_than_the_job_needs(history: History) -> None:
    history.evict_too(*history.evicting("reclaim"))


@breaks(Rule.VICTIM_NEEDED, of_kai=True)
def kais_reclaim_evicts_one_on_a_node_that_nobody_gets(history: History) -> None:
    history.evict_too(*history.evicting("reclaim"), besides=history.evicted_rows())


@breaks(Rule.DEVICES, of_kai=True)
def a_share_of_a_gpu_is_smaller_than_asked(history: History) -> None:
    ((_, statement),) = history.statements("half")
    statement["devices"][0][1][0][1][0] -= 10**8


@breaks(Rule.DEVICES, of_kai=True)
def a_whole_gpu_is_given_in_part(history: History) -> None:
    _, statement = history.placing("train")
    statement["devices"][0][1][0][1][0] //= 2


@breaks(Rule.RECLAIMED_SHARE, of_kai=True)
def a_reclaim_takes_from_a_queue_within_its_quota(history: History) -> None:
    _share(history, "rich")["quota"] = 12_000


@breaks(Rule.RECLAIMED_SHARE, of_kai=True)
def a_reclaim_takes_from_a_queue_whose_quota_has_no_bound(history: History) -> None:
    _share(history, "rich")["quota"] = -1


@breaks(Rule.RECLAIMED_SHARE, of_kai=True)
def a_reclaim_takes_one_more_than_its_queue_has_beyond_its_quota(history: History) -> None:
    """The second of two victims from two jobs finds the queue at its quota."""
    _share(history, "rich")["quota"] = 11_000


def _ask_for_shares(history: History, tasks: list[int]) -> None:
    """The pods of the gang ask for four tenths of a GPU each, and these two get that of one."""
    put = history.all("class")[0]
    cid = history.job("train")["roles"][0][0]
    rules = {**put["rules"][put["classes"][0]["rules"]], "gpu_share": {"devices": 1, "part": 400}}
    rules["gpu_share"]["portion"] = 0.4
    put["rules"]["shares"] = rules
    for item in put["classes"]:
        if item["cid"] == cid:
            item["rules"] = "shares"
    for event in history.all("commit"):
        for statement in event["statements"]:
            for tix, devices in statement.get("devices", ()):
                if statement["jid"] == history.jid("train") and tix in tasks:
                    devices[0] = ["kai-gpu/0", [4 * 10**9]]


# --- KAI's marks of GPUs on pods ----------------------------------------------------------------


def _marked(history: History) -> list[Event]:
    """Write on the pods what KAI's binder would, as on a Kubernetes cluster: each has a whole GPU.
    Returns the binds of two pods of one gang that are on one node at a time."""
    half = f"{history.jid('half')}.0"
    for bind in history.all("bind"):
        bind["gpus"] = [[["group", [500]] if t == half else ["", [1000]]] for t in bind["tasks"]]
    assert history.check().violations == ()
    jid = history.jid("train")
    on: dict[str, list[Event]] = {}
    for bind in history.all("bind"):
        for i, (task, node) in enumerate(zip(bind["tasks"], bind["nodes"], strict=True)):
            if task.startswith(f"{jid}."):
                on.setdefault(node, []).append({"bind": bind, "i": i, "node": node})
    return next(two for two in on.values() if len(two) > 1)


def _mark(pod: Event, *marks: list[Any]) -> None:
    pod["bind"]["gpus"][pod["i"]] = list(marks)


@breaks(Rule.DEVICE_CAPACITY, of_kai=True)
def two_pods_share_more_than_a_gpu(history: History) -> None:
    one, other, *_ = _marked(history)
    _mark(one, ["group", [600]])
    _mark(other, ["group", [500]])


@breaks(Rule.DEVICE_CAPACITY, of_kai=True)
def a_node_has_fewer_gpus_than_its_pods_by_their_marks(history: History) -> None:
    """One pod has four whole, and another a share of a fifth."""
    one, other, *_ = _marked(history)
    _mark(one, ["", [4000]])
    _mark(other, ["group", [500]])


@breaks(Rule.DEVICES, of_kai=True)
def a_gpu_group_is_on_two_nodes(history: History) -> None:
    here, *_ = _marked(history)
    node = next(name for name in ("n0", "n1", "n2") if name != here["node"])
    away = next(bind for bind in history.all("bind") if node in bind["nodes"])
    _mark(here, ["group", [300]])
    away["gpus"][away["nodes"].index(node)] = [["group", [300]]]


@breaks(Rule.DEVICES, of_kai=True)
def a_pod_has_no_mark_of_its_gpu(history: History) -> None:
    one, *_ = _marked(history)
    _mark(one)


@breaks(Rule.DEVICES, of_kai=True)
def one_gpu_has_two_groups(history: History) -> None:
    """Swap the GPU group labels, so that the label leads to another GPU."""
    one, other, *_ = _marked(history)
    mine = [int(pod["bind"]["tasks"][pod["i"]].partition(".")[2]) for pod in (one, other)]
    _ask_for_shares(history, mine)
    _mark(one, ["group", [400]])
    _mark(other, ["group", [400]])
    assert history.check().violations == ()
    _mark(other, ["another", [400]])
