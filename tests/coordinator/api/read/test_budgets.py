"""PodDisruptionBudgets are kept and shown as they were written; and what a list must not be."""

from __future__ import annotations

import orjson
import pytest

from coordinator.api.write.bulk import BASE
from tests.coordinator.api.client import TABLE, Client
from tests.end_to_end.one_process.harness import Running, submit

BUDGETS = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"


def budget(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"tier": "web"}}, **spec},
    }


async def test_they_are_kept(client: Client, service: Running) -> None:
    budget_read = await client.get(f"{BUDGETS}/keep")
    assert budget_read["spec"]["minAvailable"] == "50%"
    table = await client.get(BUDGETS, accept=TABLE)
    assert [row["cells"][:3] for row in table["rows"]] == [["keep", "50%", "N/A"]]
    since = budget_read["metadata"]["resourceVersion"]
    async with client.session.post(BUDGETS, json=budget("more", maxUnavailable=1)) as answer:
        assert answer.status == 201
        assert "add plugin pdb to the policy" in answer.headers["Warning"]
    await submit(service, budget("keep", minAvailable=3))
    async with client.session.delete(f"{BUDGETS}/more") as answer:
        assert answer.status == 200
    observed = []
    async with client.watch(BUDGETS, resourceVersion=since) as lines:
        while ("DELETED", "more") not in observed:
            observed.append(await lines.named())
    assert ("MODIFIED", "keep") in observed
    assert await client.names(BUDGETS) == ["keep"]


async def test_a_budget_with_both_limits_is_refused_with_its_field(client: Client) -> None:
    both = budget("both", minAvailable=1, maxUnavailable="20%")
    async with client.session.post(BUDGETS, json=both) as answer:
        body = await answer.json()
    assert answer.status == 422
    assert [cause["field"] for cause in body["details"]["causes"]] == ["spec.maxUnavailable"]


NO_LISTS = {
    b'{"apiVersion":"v1","kind":"List","items":' + b"[" * 90 + b"]" * 90 + b"}": "deeper",
    b'{"apiVersion":"v1","kind":"List","items":{}}': "items is not a list",
    b'{"apiVersion":"v1","kind":"Pod"}': "kind is 'Pod'; write List",
    b'{"apiVersion":"v1","kind":"List","wheels":1}': "wheels: 'wheels' is no field",
    b"[]": "not an object; send a List",
    b"apiVersion: v1": "not JSON",
    b"": "not JSON",
}
"""Body -> part of the message."""


async def test_a_body_that_is_not_a_list_is_refused(
    client: Client, subtests: pytest.Subtests
) -> None:
    headers = {"Content-Type": "application/json"}
    for body, message in NO_LISTS.items():
        with subtests.test(body.decode()):
            async with client.session.post(f"{BASE}/lists", data=body, headers=headers) as answer:
                output = orjson.loads(await answer.read())
            assert (answer.status, output["kind"]) == (400, "Status")
            assert message in output["message"]
