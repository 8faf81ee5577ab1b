"""Mutations of where tasks are (promise 9)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import Event, History
from tests.laboratory.checker.mutations.table import breaks


@breaks(Rule.NODE_RULES)
def a_taint_is_not_tolerated(history: History) -> None:
    taint = {"key": "closed", "value": "", "effect": "NoSchedule"}
    history.node("n0")["facts"]["taints"] = [taint]


@breaks(Rule.NODE_RULES)
def a_node_takes_nobody(history: History) -> None:
    history.node("n0")["facts"]["unschedulable"] = True


@breaks(Rule.NODE_RULES)
def the_selector_names_another_node(history: History) -> None:
    for name in ("n1", "n3", "n5", "n7"):
        history.node(name)["facts"]["labels"]["odd"] = "0"


@breaks(Rule.NODE_RULES)
def a_gate_is_still_closed(history: History) -> None:
    _with_fact(history, "gated")


@breaks(Rule.NODE_RULES)
def no_numa_domain_of_the_node_has_the_cores(history: History) -> None:
    """A node reports two domains, each with fewer cores free than a pod asks for."""
    _with_plugin(history, {"name": "numa-aware"})
    _with_fact(history, "numa", "single-numa-node")
    keeps = [["CPUManagerPolicy", "static"], ["TopologyManagerPolicy", "single-numa-node"]]
    put = history.value("volume/v0")
    for row in range(8):
        report = {"name": f"n{row}", "policies": keeps, "cpus": [[0, 0, 0, 0], [1, 1, 0, 1]]}
        put["values"][f"numatopology/n{row}"] = report  # of which no core is free


@breaks(Rule.NODE_RULES)
def the_queue_is_not_for_this_group_of_nodes(history: History) -> None:
    _with_plugin(history, {"name": "nodegroup", "arguments": {"strict": False}})
    for queue in (queue for event in history.all("queue") for queue in event["queues"]):
        queue["affinity"] = {"required": ["west"]}


@breaks(Rule.NODE_RULES)
def a_revocable_node_is_taken_outside_its_hours(history: History) -> None:
    _revocable(history, hours="10:00-11:00")
    _with_fact(history, "revocable")


@breaks(Rule.NODE_RULES)
def a_revocable_node_takes_who_cannot_be_sent_away(history: History) -> None:
    _revocable(history, hours="00:00-23:59")


def _revocable(history: History, *, hours: str) -> None:
    arguments = {"tdm.revocable-zone.day": hours}
    _with_plugin(history, {"name": "tdm", "arguments": arguments})
    for name in ("n1", "n3", "n5", "n7"):
        history.node(name)["facts"]["labels"]["volcano.sh/revocable-zone"] = "day"


def _with_fact(history: History, name: str, value: object = True) -> None:
    role = history.job("odd")["roles"][0]
    role[4:] = [{**(role[4] if len(role) > 4 else {}), name: value}]


def _with_plugin(history: History, plugin: Event) -> None:
    for event in history.all("policy"):
        event["policy"]["tiers"][-1].append(plugin)


@breaks(Rule.POD_RULES)
def a_gang_is_in_no_domain_of_its_tier(history: History) -> None:
    """Its two tasks are on two nodes with the label odd, and each rack has one of these."""
    _with_plugin(history, {"name": "network-topology-aware"})
    history.job("odd")["topology"] = {"tier": 1}
    put = history.value("volume/v0")
    for rack in range(4):
        members = [
            {"hyper": False, "kind": "exact", "value": f"n{row}"} for row in (rack, rack + 4)
        ]
        key = f"hypernode/rack-{rack}"
        put["values"][key] = {"name": f"rack-{rack}", "tier": 1, "members": members}


@breaks(Rule.POD_RULES)
def two_that_keep_apart_share_a_domain(history: History) -> None:
    rows = [op[1] for _, s in history.statements("web") for op in s["alloc"]]
    host = "kubernetes.io/hostname"
    history.node(f"n{rows[1]}")["facts"]["labels"][host] = f"n{rows[0]}"


@breaks(Rule.POD_RULES)
def one_is_not_beside_whom_it_asked_for(history: History) -> None:
    """Not by the zone of its node: whom it asked for may be on the same one."""
    rules = [rule for event in history.all("class") for rule in event.get("rules", {}).values()]
    for term in (term for rule in rules for term in rule.get("pod_terms", ())):
        if not term.get("anti"):
            term["selector"][0]["values"] = ["nobody"]


@breaks(Rule.POD_RULES)
def a_spread_is_uneven(history: History) -> None:
    rules = [rule for event in history.all("class") for rule in event.get("rules", {}).values()]
    for spread in (spread for rule in rules for spread in rule.get("spreads", ())):
        spread["topology_key"] = "kubernetes.io/hostname"
    zone = {f"n{row}": f"d{row > 6}" for row in range(8)}  # all but one in the same
    for name, domain in zone.items():
        history.node(name)["facts"]["labels"]["kubernetes.io/hostname"] = domain


@breaks(Rule.VOLUMES)
def a_volume_is_out_of_reach(history: History) -> None:
    report = history.value("volume/v0")["values"]["volume/v0"]
    report["affinity"][0][0]["values"] = ["n2"]


@breaks(Rule.VOLUMES)
def a_node_has_more_volumes_than_it_takes(history: History) -> None:
    history.value("csinode/n1")["values"]["csinode/n1"]["limits"] = [["disk.example.com", 0]]


@breaks(Rule.VOLUMES)
def a_claim_is_missing(history: History) -> None:
    history.value("volumeclaim/ns/data0")["values"].pop("volumeclaim/ns/data0")


@breaks(Rule.VOLUMES)
def a_claim_has_no_volume_yet(history: History) -> None:
    report = history.value("volumeclaim/ns/data0")["values"]["volumeclaim/ns/data0"]
    del report["bound"], report["phase"]


@breaks(Rule.VOLUMES)
def a_pod_is_bound_before_its_claim_has_a_volume(history: History) -> None:
    """The ledger's side may choose a node; the cluster's may not run the pod yet."""
    put = history.value("volumeclaim/ns/data0")
    report = put["values"]["volumeclaim/ns/data0"]
    report["storage_class"] = "slow"
    del report["bound"], report["phase"]
    report.pop("volume")
    put["values"]["storageclass/slow"] = {"name": "slow", "waits": True}


@breaks(Rule.VOLUMES)
def two_claims_have_one_volume(history: History) -> None:
    report = history.value("volumeclaim/ns/data1")["values"]["volumeclaim/ns/data1"]
    report["volume"] = "v0"


@breaks(Rule.DEVICES)
def a_share_of_a_device_is_smaller_than_asked(history: History) -> None:
    for _, statement in history.statements("share"):
        for _, devices in statement.get("devices", ()):
            devices[0][1][1] -= 1


@breaks(Rule.DEVICES)
def who_asks_for_a_share_of_a_device_gets_none(history: History) -> None:
    for _, statement in history.statements("share"):
        statement.pop("devices", None)
