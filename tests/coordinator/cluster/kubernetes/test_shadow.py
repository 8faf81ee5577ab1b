"""The shadow's book and its record."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.kubernetes.shadow.book import ShadowBook, ShadowFacts, ShadowVerdict
from coordinator.cluster.kubernetes.shadow.record import HEAD, ShadowRecord, trace_rows
from coordinator.cluster.kubernetes.shadow.writes import ShadowWrites
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.protocol import BindAnswer, BindRequests, Report
from laboratory.lab.trace import read_trace
from tests.coordinator.cluster.kubernetes.events import admit, listed, pod, reports

FACTS = ShadowFacts(queue=lambda jid: "research", why=lambda jid: "NoRoom: full")


def shadow(*names: str, record: ShadowRecord | None = None) -> tuple[Mirror, ShadowBook]:
    book = ShadowBook(record)
    book.facts = FACTS
    mirror = listed(*(pod(name) for name in names), hold=2.0, observer=book)
    mirror.tick(100.0)
    admit(mirror, *names)
    return mirror, book


async def bind(mirror: Mirror, book: ShadowBook, name: str, node: str) -> int:
    row = mirror.pods.by_key["default", name]
    writes = ShadowWrites(mirror, book, clock=lambda: 103.0)
    requests = BindRequests([row.task], ["u"], [f"default/{name}"], [node], [None])
    return (await writes.bind(requests, [row])).answers[0]


async def test_each_pod_has_a_verdict_and_queues_have_their_sums() -> None:
    mirror, book = shadow("same", "other", "ours", "theirs", "waits")
    mirror.take("Pod", pod("theirs", node="n"))
    for name in ("same", "other", "ours"):
        assert await bind(mirror, book, name, "n") == BindAnswer.OK
    mirror.tick(101.0)
    mirror.take("Pod", pod("same", node="n"))
    mirror.take("Pod", pod("other", node="m"))
    entries = {e.pod.partition("/")[2]: e for e in book.entries(lambda uid: 1)}
    assert {name: entry.verdict for name, entry in entries.items()} == {
        "same": ShadowVerdict.SAME,
        "other": ShadowVerdict.OTHER,
        "ours": ShadowVerdict.OURS_ALONE,
        "theirs": ShadowVerdict.THEIRS_ALONE,
        "waits": ShadowVerdict.WAITS,
    }
    assert entries["theirs"].why == entries["waits"].why == "NoRoom: full"
    assert entries["same"].why == ""
    totals = book.queues()["research"]
    assert (totals.compared, totals.ours_waits, totals.theirs_waits) == (2, 6.0, 2.0)


async def test_a_withdrawn_placement_leaves_the_pod_pending_as_a_new_incarnation() -> None:
    mirror, book = shadow("a")
    await bind(mirror, book, "a", "n")
    row = mirror.pods.by_key["default", "a"]
    writes = ShadowWrites(mirror, book)
    await writes.evict([row])
    assert reports(mirror) == [(Report.FAILED, "1.0", "n")]
    await bind(mirror, book, "a", "m")
    mirror.take("Pod", pod("a", node="m", phase="Running"))
    report = mirror.reports.after(1)
    assert (report.kinds, report.incarnations) == ([Report.STARTED], {0: 1})


async def test_a_running_pod_that_would_be_evicted_is_noted_once_and_runs_on() -> None:
    mirror, book = shadow("a")
    mirror.take("Pod", pod("a", node="n", phase="Running"))
    mirror.tick(110.0)
    before = mirror.reports.last
    row = mirror.pods.by_key["default", "a"]
    for _ in range(3):  # it is asked for again until the pod ends
        await ShadowWrites(mirror, book).evict([row])
    assert mirror.reports.last == before
    assert book.queues()["research"].evictions == 1


def test_the_record_is_a_trace_that_a_demo_runs(tmp_path: Path) -> None:
    record = ShadowRecord(tmp_path / "shadow.jsonl")
    mirror, _ = shadow("a", "b", record=record)
    for name, at in (("a", 110.0), ("b", 130.0)):
        mirror.tick(at)
        mirror.take("Pod", pod(name, node="n", phase="Running"))
    mirror.tick(150.0)
    mirror.take("Pod", pod("a", node="n", phase="Succeeded"))
    record.close()
    with (tmp_path / "shadow.jsonl").open("rb") as lines:
        rows = list(trace_rows(lines))
    assert rows == [("100.000", "40.000", "1", "research"), ("100.000", "", "1", "research")]
    (tmp_path / "jobs.csv").write_text("\n".join(",".join(row) for row in (HEAD, *rows)))
    trace = read_trace(tmp_path / "jobs.csv")
    assert (trace.jobs, trace.duration.tolist(), trace.queues) == (1, [40.0], ("research",))
