"""The policy file while the scheduler runs: a good change counts, a bad one is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.typing import EventDict

from coordinator.service import service
from coordinator.service.policy_watch import PolicyFollower
from coordinator.service.worker_lifecycle import WorkerTimes
from shard_worker.view.view import View
from shared.ledger.redis.server import EmbeddedServer
from shared.policy.file import ACCEPTED_FILE
from shared.settings.settings import SettingsError, load_settings
from tests.builders.objects import node, pod
from tests.conftest import flush
from tests.end_to_end.one_process.harness import running, submit

STRICT = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
LAX = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
BAD = "actions: allocate\ntiers: [{plugins: [{name: gnag}]}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(STRICT)
    return path


@pytest.fixture
def follower(tmp_path: Path, file: Path) -> PolicyFollower:
    return PolicyFollower(load_settings(run_dir=tmp_path, policy=file))


def plugins(follower: PolicyFollower) -> list[str]:
    return [option.name for tier in follower.session().policy.tiers for option in tier]


def looks(follower: PolicyFollower, times: int = 2) -> list[list[str]]:
    """The plugins of each session that so many looks gave."""
    results = [follower.look() for _ in range(times)]
    return [[o.name for tier in s.policy.tiers for o in tier] for s in results if s is not None]


# --- the follower ---------------------------------------------------------------------------------


def test_nothing_happens_while_the_file_stands(follower: PolicyFollower) -> None:
    assert looks(follower, 3) == []
    assert follower.generation == 0
    assert follower.status()["error"] is None


def test_a_change_counts_once_it_has_settled(follower: PolicyFollower, file: Path) -> None:
    file.write_text(LAX)
    assert follower.look() is None
    file.write_text(STRICT.replace("gang", "priority"))
    assert follower.look() is None  # another content again: still being written
    assert looks(follower, 3) == [["priority", "predicates"]]
    assert (follower.generation, plugins(follower)) == (1, ["priority", "predicates"])


def test_another_dialect_takes_a_restart(follower: PolicyFollower, file: Path) -> None:
    file.write_text("dialect: kai\n")
    assert looks(follower, 3) == []
    error = follower.status()["error"]
    assert "the policy is KAI's now (dialect: kai: the file says so)" in error
    assert "takes a restart" in error
    assert plugins(follower) == ["gang", "predicates"]


def test_another_shape_of_the_tree_takes_a_restart(tmp_path: Path, file: Path) -> None:
    file.write_text("dialect: kai\n")
    follower = PolicyFollower(load_settings(run_dir=tmp_path, policy=file))
    file.write_text("dialect: kai\noptions: {full-hierarchy-fairness: false}\n")
    assert looks(follower, 3) == []
    error = follower.status()["error"]
    assert "options.full-hierarchy-fairness" in error
    assert "takes a restart" in error


def test_a_file_replaced_with_the_same_time_and_size_is_noticed(
    follower: PolicyFollower, file: Path
) -> None:
    before = file.stat()
    draft = file.with_suffix(".draft")
    draft.write_text(STRICT.replace("gang", "prio").replace("prio", "drf "))
    os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))
    draft.replace(file)
    assert file.stat().st_size == before.st_size
    assert looks(follower) == [["drf", "predicates"]]


def test_a_bad_file_changes_nothing_and_is_told(
    follower: PolicyFollower, file: Path, log_lines: list[EventDict]
) -> None:
    loaded = follower.status()["loaded_at"]
    file.write_text(BAD)
    assert looks(follower, 5) == []
    assert (follower.generation, plugins(follower)) == (0, ["gang", "predicates"])
    status = follower.status()
    assert status["loaded_at"] == loaded
    assert "unknown plugin 'gnag'; did you mean 'gang'?" in status["error"]
    (line,) = log_lines
    assert line["event"] == "Kept the old policy: the file cannot be used"
    file.write_text(STRICT)
    assert looks(follower) == []  # as it was: nothing to take up
    assert follower.status()["error"] is None


def test_a_file_that_is_gone_changes_nothing(follower: PolicyFollower, file: Path) -> None:
    file.unlink()
    assert looks(follower, 3) == []
    assert "cannot read it" in follower.status()["error"]
    file.write_text(LAX)
    assert looks(follower) == [["gang"]]
    assert follower.status()["error"] is None


def test_a_mount_of_kubernetes_swaps_a_link(tmp_path: Path) -> None:
    for name, text in (("one", STRICT), ("two", LAX)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    data = tmp_path / "data"
    data.symlink_to("one")
    policy_follower = PolicyFollower(load_settings(run_dir=tmp_path, policy=data / "policy.yaml"))
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(data)
    assert looks(policy_follower) == [["gang"]]


def test_a_config_map_is_followed_too(follower: PolicyFollower, file: Path) -> None:
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.conf": LAX}})
    )
    assert looks(follower) == [["gang"]]


def test_values_that_yaml_knows_and_messages_do_not(follower: PolicyFollower, file: Path) -> None:
    file.write_text(LAX + "metrics: {since: 2001-01-01, 1: 2}\n")
    looks(follower)
    orjson.dumps(follower.content)


def test_no_file_is_the_default_for_ever(tmp_path: Path) -> None:
    policy_follower = PolicyFollower(load_settings(run_dir=tmp_path))
    assert looks(policy_follower, 3) == []
    assert policy_follower.status()["file"] is None
    assert "proportion" in plugins(policy_follower)


# --- a start with a bad file ----------------------------------------------------------------------


def test_a_first_start_with_a_bad_file_is_refused(tmp_path: Path, file: Path) -> None:
    file.write_text(BAD)
    with pytest.raises(SettingsError, match="gnag"):
        PolicyFollower(load_settings(run_dir=tmp_path, policy=file))
    file.write_text(STRICT.replace("gang", "sla, arguments: {sla-waiting-time: soon}"))
    with pytest.raises(SettingsError, match="sla-waiting-time"):
        PolicyFollower(load_settings(run_dir=tmp_path, policy=file))


def test_a_returning_coordinator_goes_on_with_the_counted_amounts(
    tmp_path: Path, follower: PolicyFollower, file: Path
) -> None:
    file.write_text(LAX)
    looks(follower)
    file.write_text(BAD)
    looks(follower)
    successor = PolicyFollower(load_settings(run_dir=tmp_path, policy=file))
    assert plugins(successor) == ["gang"]
    assert "gnag" in successor.status()["error"]
    file.write_text(STRICT)
    assert looks(successor) == [["gang", "predicates"]]


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"file": "other", "policy": {}}', b'{"file": "@", "policy": {"actions": 1}}'],
)
def test_a_damaged_accepted_policy_is_not_used(tmp_path: Path, file: Path, content: bytes) -> None:
    (tmp_path / ACCEPTED_FILE).write_bytes(content.replace(b"@", str(file).encode()))
    file.write_text(BAD)
    with pytest.raises(SettingsError, match="gnag"):
        PolicyFollower(load_settings(run_dir=tmp_path, policy=file))


# --- the service ----------------------------------------------------------------------------------


def bound(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: status["tasks"]["bound"] + status["tasks"]["finished"] >= count


def change(file: Path, text: str) -> None:
    file.write_text(text)


async def test_waiting_jobs_go_by_the_new_policy_and_then_by_the_next(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Predicates keep the pod off the tainted node. Without them it fits; that is for the workers
    to know, so its place shows that theirs were replaced."""
    monkeypatch.setattr(service, "WorkerTimes", partial(WorkerTimes, policy=0.05))
    flush(embedded_server)
    taint = {"key": "k", "value": "", "effect": "NoSchedule"}
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        before = [shard["epoch"] for shard in parts.service.status()["shards"]]
        await submit(parts, node("n", taints=[taint]), pod("p"))
        await parts.until(lambda status: status["outcomes"].get("infeasible", 0) > 0)
        change(file, BAD)
        status = await parts.until(lambda status: status["policy"]["error"] is not None)
        assert "gnag" in status["policy"]["error"]
        assert [shard["epoch"] for shard in status["shards"]] == before
        change(file, LAX)
        status = await parts.until(bound(1))
        assert status["policy"]["error"] is None
        assert status["workers_lost"] == 0
        change(file, STRICT)
        await parts.until(lambda _: parts.service.workers._generations == {0: 2, 1: 2})
        tried = status["outcomes"]["infeasible"]
        await submit(parts, pod("q"))
        status = await parts.until(lambda status: status["outcomes"]["infeasible"] > tried)
        assert status["tasks"]["pending"] == 1
        parts.service.core.validate()


async def test_a_worker_goes_on_with_what_it_knows_unless_rules_read_more(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "WorkerTimes", partial(WorkerTimes, policy=0.05))
    flush(embedded_server)
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, node("n"), pod("p"))
        await parts.until(bound(1))

        async def views(text: str, generation: int) -> list[View]:
            change(file, text)
            given = {0: generation, 1: generation}
            await parts.until(lambda _: parts.service.workers._generations == given)
            await parts.until(lambda status: all(shard["epoch"] for shard in status["shards"]))
            return present()

        def present() -> list[View]:
            return [parts.shards._servers[shard][0].view for shard in (0, 1)]

        first = present()
        assert all(map(is_, await views(LAX, 1), first))
        with_residents = await views(LAX.replace("allocate", '"allocate, preempt"'), 2)
        assert not any(map(is_, with_residents, first))
        assert all(view.residents is not None for view in with_residents)
        await submit(parts, pod("q"))
        status = await parts.until(bound(2))
        assert status["workers_lost"] == 0
        parts.service.core.validate()


async def test_no_job_is_lost_between_one_policy_and_the_next(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "WorkerTimes", partial(WorkerTimes, policy=0.02))
    flush(embedded_server)
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, *(node(f"n{i}") for i in range(100)))
        policies, pods = parts.service._policies, 0
        for generation in range(1, 7):
            change(file, [STRICT, LAX][generation % 2])
            while policies.generation < generation:  # jobs arrive until it counts, and beyond
                pods += 2
                await submit(parts, pod(f"p{pods - 1}"), pod(f"p{pods}"))
        await parts.until(bound(pods))
        assert policies.generation == 6
        parts.service.core.validate()
