"""Groups whose pods have all ended hold no promise of room."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import node, pod, pod_group, queue
from tests.conftest import flush
from tests.end_to_end.one_process.harness import running, submit

POLICY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: overcommit
  - name: predicates
  - name: {}
"""


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
async def test_finished_groups_let_the_next_one_in(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path, sharing: str
) -> None:
    """Also under the next leader, which has the phases of the groups from the ledger."""
    flush(embedded_server)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(sharing))
    amounts = {"cpu": "1", "memory": "1Gi"}
    async with running(embedded_server.url, short_dir, policy=policy) as parts:
        await submit(parts, node("n"), queue("q", capability={"cpu": "8", "memory": "32Gi"}))
        for i in range(14):
            group = pod_group(f"g{i}", minMember=1, minResources=amounts, queue="q")
            member = pod(f"p{i}", group=f"g{i}")
            member["metadata"]["annotations"]["quadrant.dev/duration"] = "0.05"
            await submit(parts, group, member)
            await parts.until(partial(_finished, i + 1), 15.0)
    async with running(embedded_server.url, short_dir, policy=policy) as parts:
        wide = pod_group("wide", minMember=1, minResources={"cpu": "8"}, queue="q")
        await submit(parts, wide, pod("whole", group="wide"))
        await parts.until(lambda status: status["tasks"]["running"] == 1, 15.0)


def _finished(count: int, status: dict[str, Any]) -> bool:
    return bool(status["tasks"]["finished"] == count)
