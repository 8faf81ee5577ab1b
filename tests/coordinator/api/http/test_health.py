"""Probes and health: by name, with and without words, and as things go wrong."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import orjson
import pytest

from coordinator.cluster.protocol import ClusterTimeout
from shared.ledger.errors import LedgerUnavailable
from tests.coordinator.api.client import Client
from tests.end_to_end.one_process.harness import Running

NAMES = [
    *("serving", "ledger", "workers", "cluster", "all_workers", "policy", "intake", "leading"),
    *("ledger_audit", "plugins", "worker_versions", "usage_over_time"),
]


async def test_all_is_well(client: Client) -> None:
    assert await client.text("/livez") == (200, "ok\n")
    assert await client.text("/readyz") == (200, "ok\n")
    code, text = await client.text("/readyz?verbose")
    assert code == 200
    assert text.splitlines() == [
        "[+]ping ok",
        *(f"[+]{name} ok" for name in NAMES),
        "readyz check passed",
    ]
    assert "[+]ledger ok" not in (await client.text("/readyz?verbose&exclude=ledger"))[1]
    assert await client.text("/readyz/ledger") == (200, "ok\n")
    assert (await client.text("/readyz/ledger?verbose"))[1].startswith("[+]ledger ok\n")
    code, text = await client.text("/readyz/wheel")
    assert (code, orjson.loads(text)["status"]) == (404, 404)
    assert "there is no check 'wheel'; there are ping, serving, ledger" in text
    assert (await client.text("/readyz?exclude=wheel"))[0] == 404
    health = await client.get("/health")
    assert (health["healthy"], health["ready"]) == (True, True)
    assert [check["name"] for check in health["checks"]] == NAMES
    assert {check["message"] for check in health["checks"]} == {"ok"}


async def test_readiness_names_the_shards_without_a_worker(
    client: Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = service.service.core
    for state in core.dispatcher.shards.values():
        monkeypatch.setattr(state, "epoch", None)
        expected = 200 if state.shard == 0 else 503
        code, text = await client.text("/readyz?verbose")
        assert code == expected, text
        assert "[-]all_workers failed: no worker is up for" in text
    assert "[-]workers failed: none of 2 shard workers is up" in text
    assert (await client.text("/readyz?exclude=workers"))[0] == 200
    assert (await client.text("/readyz/workers"))[0] == 503
    assert (await client.text("/livez"))[0] == 200
    health = await client.get("/health", code=503)
    wrong = {check["name"] for check in health["checks"] if not check["healthy"]}
    assert wrong == {"workers", "all_workers"}


async def test_a_policy_that_is_bad_is_no_reason_to_stop(
    client: Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.service._policies, "error", "line 3: no such plugin")
    assert (await client.text("/readyz"))[0] == 200
    code, text = await client.text("/readyz/policy")
    assert code == 503
    assert "an older policy counts: line 3: no such plugin" in text
    health = await client.get("/health")
    assert (health["healthy"], health["ready"]) == (False, True)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ledger", LedgerUnavailable("connection refused")),
        ("cluster", ClusterTimeout("silent")),
        ("cluster", OSError("no such socket")),
    ],
)
async def test_a_part_that_is_gone_is_told(
    client: Client,
    service: Running,
    name: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers of the lost part go on, and succeed once it is back."""

    async def gone() -> str:
        raise error

    part, question = {
        "ledger": (service.service._ledger, "run_id"),
        "cluster": (service.service._cluster, "history_position"),
    }[name]
    here = service.service._serving
    assert here is not None
    method = getattr(part, question)
    look = here._look
    monkeypatch.setattr(here, "_look", _look_at_nothing)  # the service looks by itself, too
    await look(name, gone)
    code, text = await client.text(f"/readyz/{name}")
    assert code == 503
    assert f"{type(error).__name__}: {error}" in text
    assert (await client.text("/readyz"))[0] == 503
    await look(name, method)
    assert (await client.text("/readyz"))[0] == 200


async def _look_at_nothing(name: str, question: Callable[[], Awaitable[object]]) -> None:
    pass


async def test_a_list_that_hangs_is_told(client: Client, service: Running) -> None:
    here = service.service._serving
    assert here is not None
    here._submits[object()] = time.monotonic() - 9
    code, text = await client.text("/readyz/intake")
    assert code == 503
    assert "a list waits since 9 s" in text
