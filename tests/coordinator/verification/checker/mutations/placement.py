"""Mutations of where tasks are (promise 9)."""

from __future__ import annotations

from coordinator.verification.checker.report.rules import Rule
from tests.coordinator.verification.checker.mutating import History
from tests.coordinator.verification.checker.mutations.table import breaks


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


@breaks(Rule.POD_RULES)
def two_that_keep_apart_share_a_domain(history: History) -> None:
    rows = [op[1] for _, s in history.statements("web") for op in s["alloc"]]
    host = "kubernetes.io/hostname"
    history.node(f"n{rows[1]}")["facts"]["labels"][host] = f"n{rows[0]}"


@breaks(Rule.POD_RULES)
def one_is_not_beside_whom_it_asked_for(history: History) -> None:
    row = history.placing("beside")[1]["alloc"][0][1]
    history.node(f"n{row}")["facts"]["labels"]["topology.kubernetes.io/zone"] = "far"


@breaks(Rule.POD_RULES)
def a_spread_is_uneven(history: History) -> None:
    rules = [rule for event in history.all("class") for rule in event.get("rules", {}).values()]
    for spread in (spread for rule in rules for spread in rule.get("spreads", ())):
        spread["topology_key"] = "kubernetes.io/hostname"
    zone = {f"n{row}": f"d{row > 5}" for row in range(8)}
    for name, domain in zone.items():
        history.node(name)["facts"]["labels"]["kubernetes.io/hostname"] = domain


@breaks(Rule.VOLUMES)
def a_volume_is_out_of_reach(history: History) -> None:
    told = history.value("volume/v0")["values"]["volume/v0"]
    told["affinity"][0][0]["values"] = ["n2"]


@breaks(Rule.VOLUMES)
def a_node_has_more_volumes_than_it_takes(history: History) -> None:
    history.value("csinode/n1")["values"]["csinode/n1"]["limits"] = [["disk.example.com", 0]]


@breaks(Rule.VOLUMES)
def a_claim_is_missing(history: History) -> None:
    history.value("volumeclaim/ns/data0")["values"].pop("volumeclaim/ns/data0")


@breaks(Rule.VOLUMES)
def a_claim_has_no_volume_yet(history: History) -> None:
    told = history.value("volumeclaim/ns/data0")["values"]["volumeclaim/ns/data0"]
    del told["bound"], told["phase"]
