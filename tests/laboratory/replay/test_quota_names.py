"""Amounts that Volcano's controllers write by Kubernetes' quota evaluator: the names that no node
offers hold nobody back."""

from __future__ import annotations

import pytest

from tests.builders.objects import queue
from tests.laboratory.replay.build import FORMS, Json, decided, gang, node, session

POLICIES: dict[str, list[list[str]]] = {
    "overcommit": [["gang"], ["overcommit", "predicates", "proportion"]],
    "proportion": [["gang"], ["predicates", "proportion"]],
    "capacity": [["gang", "capacity"], ["predicates"]],
    "quota": [["gang"], ["resourcequota", "overcommit", "predicates", "proportion"]],
    "topology": [["gang"], ["overcommit", "predicates", "network-topology-aware"]],
}
COUNTED = {"cpu": "2", "memory": "2Gi", "pods": "2"}
OF_QUOTAS = {
    "count/pods": "2",
    "requests.cpu": "2",
    "requests.memory": "2Gi",
    "requests.ephemeral-storage": "1Gi",
    "requests.example.com/card": "2",
    "requests.hugepages-2Mi": "4Mi",
    "limits.cpu": "2",
    "limits.example.com/card": "2",
    "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
}


def under(name: str) -> Json:
    tiers = [{"plugins": [{"name": plugin} for plugin in tier]} for tier in POLICIES[name]]
    return {"actions": "enqueue, allocate, backfill", "tiers": tiers}


def cluster(least: Json, *more: Json) -> list[Json]:
    """Two nodes of 4 cpu, and a gang of two that waits for its admission."""
    items = gang("g", pods=2, minResources=least)
    items[0]["status"]["phase"] = "Pending"
    return [node("n0"), node("n1"), *items, *more]


@pytest.mark.parametrize("policy", ["overcommit", "capacity"])
@pytest.mark.parametrize("name", OF_QUOTAS)
def test_a_name_that_only_quotas_count_holds_no_gang_back(name: str, policy: str) -> None:
    result = session(*cluster({name: OF_QUOTAS[name]}), under=under(policy))
    assert len(result.binds) == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_as_the_job_controller_writes_it_is_admitted(policy: str, form: str) -> None:
    result = decided(form, *cluster(COUNTED | OF_QUOTAS), under=under(policy))
    assert len(result.binds) == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["cpu", "memory", "example.com/card", "hugepages-2Mi"])
def test_a_resource_of_nodes_counts_as_before(name: str, form: str) -> None:
    result = decided(form, *cluster({**OF_QUOTAS, name: "900Gi"}), under=under("overcommit"))
    assert result.binds == {}


@pytest.mark.parametrize("form", FORMS)
def test_a_queue_with_only_quota_resources_is_open_for_all(form: str) -> None:
    narrow = {"count/pods": "1", "requests.cpu": "1", "limits.cpu": "1"}
    team = queue("default", capability={"cpu": "4", **narrow}, guarantee={"resource": narrow})
    result = decided(form, *cluster(COUNTED, team), under=under("capacity"))
    assert len(result.binds) == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "bound"), [("count/pods", 0), ("requests.cpu", 0), ("pods", 2)])
def test_a_quota_counts_the_names_that_the_scheduler_drops(
    name: str, bound: int, form: str
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"hard": {"count/pods": "1", "requests.cpu": "1"}},
    }
    result = decided(form, *cluster({name: "2"}, quota), under=under("quota"))
    assert len(result.binds) == bound
