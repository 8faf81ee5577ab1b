"""RestartPod, RestartTask and RestartPartition end to end: some pods of a Job begin anew, and the
others run on."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.protocol import BindAnswers, BindRequests
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.intake.documents.kinds import POD
from shared.codec.packed import replace
from shared.messages.messages import TaskState
from tests.builders.objects import Item, node
from tests.coordinator.controllers.support import job, ledger_of, phase, status, submit, task, when
from tests.end_to_end.one_process.harness import Running, running

RESTART_POD = [when("PodFailed", "RestartPod")]


class BadAtFirst(LocalCluster):
    """These tasks fail in their first incarnations."""

    def __init__(self, *bad: str, times: int = 1) -> None:
        super().__init__(grace=0.01)
        self.bad = dict.fromkeys(bad, times)
        self.bound: list[tuple[str, str]] = []

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        self.bound += zip(requests.tasks, requests.uids, strict=True)
        codes, durations = [], []
        for task_name, duration in zip(requests.tasks, requests.durations, strict=True):
            fails = self.bad.get(task_name, 0) > 0
            self.bad[task_name] = self.bad.get(task_name, 0) - 1
            codes.append(1 if fails else 0)
            durations.append(0.05 if fails else duration)
        return super().bind(replace(requests, exit_codes=codes, durations=durations), now)

    def times(self, task_name: str) -> int:
        return len({uid for name, uid in self.bound if name == task_name})


def pods(service: Running) -> dict[str, str]:
    entries = service.service.objects.list(POD, namespace="ns", limit=None).items
    shown_pods = [entry.object()["metadata"] for entry in entries]
    return {metadata["name"]: metadata["uid"] for metadata in shown_pods}


def states(service: Running) -> list[int]:
    return list(service.service.core.order.jobs[0].states)


async def again(service: Running, name: str, retries: int) -> Item:
    """Its status once it runs again after so many restarts."""

    def runs() -> bool:
        now = status(service, name)
        return (now["retryCount"], now["state"]["phase"]) == (retries, "Running")

    await service.until(lambda _: runs())
    return status(service, name)


async def test_a_pod_that_failed_begins_anew_and_the_others_run_on(
    tmp_path: Path, redis_url: str
) -> None:
    cluster = BadAtFirst("0.1")
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node(), job("j", task("w", 3), policies=RESTART_POD, minAvailable=3))
        before = pods(service)
        await again(service, "j", 1)
        after = pods(service)
        assert {name for name in before if before[name] != after[name]} == {"j-w-1"}
        assert [cluster.times(name) for name in ("0.0", "0.1", "0.2")] == [1, 2, 1]
        record = (await ledger_of(service)).tasks[0][1]
        assert (record.state, record.incarnation) == (TaskState.RUNNING, 1)
        assert "Restarting" in event_reasons(service, "j")
        service.service.core.validate()


async def test_a_job_whose_pods_all_ended_is_taken_up_again(tmp_path: Path, redis_url: str) -> None:
    cluster = BadAtFirst("0.0", "0.1")
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node(), job("j", task("w", 2, runs=0.1), policies=RESTART_POD))
        ended = await phase(service, "j", "Completed")
        assert (ended["succeeded"], ended["failed"]) == (2, 0)
        assert 1 <= ended["retryCount"] <= 2
        await service.until(lambda _: states(service) == [TaskState.SUCCEEDED] * 2)
        service.service.core.validate()


async def test_a_job_that_restarts_pods_too_often_fails(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        bad, good = task("bad", 1, runs=0.02, code=3), task("good", 2)
        await submit(service, node(), job("j", bad, good, policies=RESTART_POD, maxRetry=3))
        ended = await phase(service, "j", "Failed")
        assert ended["retryCount"] == 3
        assert ended["state"]["message"] == "PodFailed in task bad: RestartPod"
        assert service.service.status()["jobs"]["deleted"] == 1


async def test_a_task_begins_anew_with_all_its_pods(tmp_path: Path, redis_url: str) -> None:
    """Its running pods are stopped, and the other task is left alone."""
    cluster = BadAtFirst("0.1")
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        policies = [when("PodFailed", "RestartTask")]
        worker, master = task("w", 3, policies=policies), task("m", 1)
        await submit(service, node(), job("j", worker, master, minAvailable=4))
        await again(service, "j", 1)
        assert [cluster.times(f"0.{tix}") for tix in range(4)] == [2, 2, 2, 1]
        incarnations = {
            tix: t.incarnation for tix, t in (await ledger_of(service)).tasks[0].items()
        }
        assert incarnations == {0: 1, 1: 1, 2: 1, 3: 0}
        service.service.core.validate()


async def test_a_partition_begins_anew(tmp_path: Path, redis_url: str) -> None:
    cluster = BadAtFirst("0.2")
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        worker = task("w", 4, policies=[when("PodFailed", "RestartPartition")])
        worker["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2}
        await submit(service, node(), job("j", worker, minAvailable=4))
        await again(service, "j", 1)
        assert [cluster.times(f"0.{tix}") for tix in range(4)] == [1, 1, 2, 2]


def event_reasons(service: Running, name: str) -> set[str]:
    return {
        each.happening.reason
        for each in service.service.objects.cluster_events
        if each.about.path == f"ns/{name}"
    }
