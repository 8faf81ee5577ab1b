"""Policies end to end: intake, a real ledger, workers, a simulated cluster."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.protocol import BindAnswers, BindRequests, ClusterTimeout
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import EVENT, POD, POD_GROUP
from shared.codec.packed import replace
from tests.builders.objects import node, pod
from tests.coordinator.controllers.support import (
    gone,
    job,
    job_object,
    ledger_of,
    phase,
    status,
    submit,
    task,
    when,
    writer,
)
from tests.end_to_end.one_process.harness import Running, running

RESTART = [when("PodFailed", "RestartJob")]


async def test_a_failed_pod_begins_the_job_anew_until_it_may_not_any_more(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        bad, good = task("bad", 1, runs=0.02, code=3), task("good", 2)
        await submit(service, node(), job("j", bad, good, policies=RESTART, maxRetry=3))
        ended = await phase(service, "j", "Failed")
        assert ended["retryCount"] == 3
        assert ended["state"]["reason"] == "PodFailed"
        assert service.service.status()["jobs"]["deleted"] == 3  # incarnations
        assert not service.service.core.order.jobs
        snapshot = await ledger_of(service)
        assert (snapshot.jobs, snapshot.tasks) == ({}, {})
        assert list(service.service.objects.list(POD, namespace="ns", limit=None).items) == []
        service.service.core.validate()


async def test_another_incarnation_may_end_well(tmp_path: Path, redis_url: str) -> None:
    """The pods that failed run again, under the same names and other uids, and succeed now."""
    cluster = OnceBad(grace=0.01)
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node(), job("j", task("w", 2, runs=0.05), policies=RESTART))
        before = pods(service)
        ended = await phase(service, "j", "Completed")
        assert (ended["retryCount"], ended["succeeded"], ended["failed"]) == (1, 2, 0)
        assert event_reasons(service, "j") >= {"Restarting", "Restarted"}
        after = pods(service)
        assert before.keys() == after.keys() == {"j-w-0", "j-w-1"}
        assert set(before.values()).isdisjoint(after.values())
        assert cluster.bound == ["0.0", "0.1", "1.0", "1.1"]
        document = service.service.objects.document(Key("Job", "ns", "j"))
        assert document is not None
        assert document.jid == 1
        service.service.core.validate()


async def test_an_aborted_job_stops_its_running_pods(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        policies = [when("PodFailed", "AbortJob")]
        tasks = [task("good", 1, runs=0.01), task("bad", 1, runs=0.3, code=1), task("long", 2)]
        await submit(service, node(), job("j", *tasks, policies=policies))
        ended = await phase(service, "j", "Aborted")
        assert (ended["succeeded"], ended["failed"], ended["retryCount"]) == (1, 1, 0)
        await nothing_runs(service)


async def test_a_job_is_completed_with_the_role_that_counts(tmp_path: Path, redis_url: str) -> None:
    """The role's own policy comes before that of the job."""
    async with running(redis_url, tmp_path, grace=0.01) as service:
        result = task("master", 1, runs=0.02, policies=[when("TaskCompleted", "CompleteJob")])
        any_abort = [when("*", "AbortJob")]
        await submit(service, node(), job("j", result, task("ps", 3), policies=any_abort))
        ended = await phase(service, "j", "Completed")
        assert ended["state"]["message"] == "TaskCompleted in task master: CompleteJob"
        await nothing_runs(service)


async def test_the_same_again_changes_nothing_and_another_is_refused(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        policies = [when("PodFailed", "TerminateJob")]
        mine = job("j", task("bad", 1, runs=0.01, code=1), policies=policies)
        await submit(service, node(), mine)
        await phase(service, "j", "Terminated")
        assert (await writer(service).submit([mine])).unchanged == 1
        other = job("j", task("bad", 2, runs=0.01, code=1), policies=policies)
        (refusal,) = (await writer(service).submit([other])).refused
        assert "delete it first" in refusal.message
        await delete(service, "j")
        assert job_object(service, "j") is None
        await submit(service, other)
        assert status(service, "j")["retryCount"] == 0


async def test_a_job_that_is_deleted_while_it_begins_anew_goes(
    tmp_path: Path, redis_url: str
) -> None:
    cluster = DeafCluster(grace=0.01)
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        tasks = [task("bad", 1, runs=0.01, code=1), task("long", 1)]
        await submit(service, node(), job("j", *tasks, policies=RESTART))
        await phase(service, "j", "Restarting")
        await delete(service, "j")
        cluster.deaf = False
        await gone(service, "j")
        assert (await ledger_of(service)).jobs == {}
        assert not service.service.core.order.jobs


async def test_finished_jobs_are_deleted_after_their_ttl(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        ends = task("a", 1, runs=0.01)
        bad = task("b", 1, runs=0.01, code=1)
        await submit(
            service,
            node(),
            job("now", ends, ttlSecondsAfterFinished=0),
            job("stopped", bad, policies=RESTART, maxRetry=1, ttlSecondsAfterFinished=0),
            job("later", ends, ttlSecondsAfterFinished=1000),
            job("stays", ends),
        )
        await gone(service, "now")
        await gone(service, "stopped")
        await phase(service, "later", "Completed")
        await phase(service, "stays", "Completed")
        assert service.service.jobs.controller.next_due() is not None


async def test_a_role_waits_for_another(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        first = task("first", 2, runs=0.2)
        after = task("then", 3, runs=0.01, after=["first"])
        notices = await submit(service, node(), job("j", after, first, minAvailable=2))
        assert notices == []
        assert pods(service).keys() == {"j-first-0", "j-first-1"}
        ended = await phase(service, "j", "Completed")
        assert ended["succeeded"] == 5
        assert len(pods(service)) == 5
        same = job("j", after, first, minAvailable=2)
        assert (await writer(service).submit([same])).unchanged == 1
        other = job("j", task("then", 3, runs=0.01), first, minAvailable=2)
        assert (await writer(service).submit([other])).refused
        (notice,) = await submit(service, job("never", after, first))
        assert notice.startswith("spec.minAvailable: 5 are needed to start, and only 2 exist")
        await delete(service, "j")
        await delete(service, "never")
        await gone(service, "j")
        await gone(service, "never")
        assert pods(service) == {}
        service.service.core.validate()


async def test_a_job_whose_pods_names_are_taken_meanwhile_does_not_begin_anew(
    tmp_path: Path, redis_url: str
) -> None:
    """A role that waits reserves no names: neither its creation nor a restart may take them."""
    async with running(redis_url, tmp_path, grace=0.01) as service:
        tasks = [task("then", 1, after=["first"]), task("first", 1, runs=0.5, code=1)]
        await submit(service, node(cpu=0), job("j", *tasks, policies=RESTART, minAvailable=1))
        await submit(service, pod("j-then-0"))
        await submit(service, node())
        # Its only pod has failed for a moment before its policy is carried out.
        await service.until(lambda _: event_reasons(service, "j") >= {"Restarting", "Failed"})
        assert "Restarted" not in event_reasons(service, "j")
        ended = await phase(service, "j", "Failed")
        assert "pod ns/j-then-0 exists" in ended["state"]["message"]
        assert ended["retryCount"] == 1
        await service.until(lambda s: s["tasks"]["running"] == 1)
        assert pods(service).keys() == {"j-then-0"}


async def test_policies_of_a_job_that_runs_may_change(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=0.01) as service:
        tasks = [task("bad", 1, runs=0.01, code=1), task("long", 1)]
        await submit(service, node(), job("j", *tasks))
        await service.until(lambda s: s["tasks"]["finished"] == 1)
        assert status(service, "j")["state"]["phase"] == "Running"
        await submit(service, job("j", *tasks, policies=[when("PodFailed", "AbortJob")]))
        await phase(service, "j", "Aborted")


# --- a coordinator ends in between --------------------------------------------------------------


async def test_a_successor_begins_the_job_anew(tmp_path: Path, redis_url: str) -> None:
    cluster = DeafCluster(grace=0.01)
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        tasks = [task("bad", 1, runs=0.01, code=1), task("long", 1)]
        await submit(service, node(), job("j", *tasks, policies=RESTART, maxRetry=2))
        await phase(service, "j", "Restarting")
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        assert status(service, "j")["state"]["phase"] == "Restarting"
        cluster.deaf = False
        assert (await phase(service, "j", "Failed"))["retryCount"] == 2
        await nothing_runs(service)
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        assert status(service, "j")["state"]["phase"] == "Failed"
        assert (
            await writer(service).submit([job("j", *tasks, policies=RESTART, maxRetry=2)])
        ).unchanged
        await delete(service, "j")
        assert not [key for key in (await ledger_of(service)).documents if key.startswith("Job/")]


async def test_a_successor_finds_the_restarts_that_policies_require(
    tmp_path: Path, redis_url: str
) -> None:
    """The failure is recorded, and nobody acted on it."""
    async with running(redis_url, tmp_path, grace=0.01) as service:
        service.service.jobs.controller.recorded = lambda jids, now: None  # type: ignore[method-assign]
        tasks = [task("bad", 1, runs=0.01, code=1), task("long", 1)]
        await submit(service, node(), job("j", *tasks, policies=[when("*", "AbortJob")]))
        ends = job("e", task("a", 1, runs=0.01), ttlSecondsAfterFinished=0)
        waits = job("w", task("a", 1), task("b", 1, after=["a"]), minAvailable=1)
        await submit(service, ends, waits)
        await service.until(lambda s: s["tasks"]["finished"] == 2 and s["tasks"]["running"] == 2)
    async with running(redis_url, tmp_path, grace=0.01) as service:
        assert (await phase(service, "j", "Aborted"))["failed"] == 1
        await gone(service, "e")
        await service.until(lambda _: "w-b-0" in pods(service))


# --- what is asked ------------------------------------------------------------------------------


class OnceBad(LocalCluster):
    """Its first incarnations end badly."""

    bound: list[str]

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        self.bound = [*getattr(self, "bound", []), *requests.tasks]
        codes = [int(name.startswith("0.")) for name in requests.tasks]
        return super().bind(replace(requests, exit_codes=codes), now)


class DeafCluster(LocalCluster):
    """It stops nothing until it hears again."""

    deaf = True

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        if self.deaf:
            raise ClusterTimeout("delete")
        return super().delete(tasks, now, uids)


def pods(service: Running) -> dict[str, str]:
    """Name -> uid."""
    entries = service.service.objects.list(POD, namespace="ns", limit=None).items
    shown_pods = [entry.object()["metadata"] for entry in entries]
    return {metadata["name"]: metadata["uid"] for metadata in shown_pods}


def event_reasons(service: Running, name: str) -> set[str]:
    """Reasons of the events of a Job and of its PodGroup."""
    events = service.service.objects.list(EVENT, namespace="ns", limit=None).items
    shown_events = [entry.object() for entry in events]
    about = {"Job": (name,), "PodGroup": tuple(pods_group(service))}
    return {
        event["reason"]
        for event in shown_events
        if event["involvedObject"]["name"] in about.get(event["involvedObject"]["kind"], ())
    }


def pods_group(service: Running) -> list[str]:
    groups = service.service.objects.list(POD_GROUP, namespace="ns", limit=None).items
    return [entry.key.name for entry in groups]


async def delete(service: Running, name: str) -> None:
    changed = await writer(service).change(Key("Job", "ns", name), lambda _: None)
    assert not changed.admission.refused


async def nothing_runs(service: Running) -> None:
    snapshot = await ledger_of(service)
    assert (snapshot.jobs, snapshot.tasks) == ({}, {})
    assert not service.service.core.order.jobs
    assert pods(service) == {}
    service.service.core.validate()
