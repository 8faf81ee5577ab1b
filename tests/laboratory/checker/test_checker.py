"""The checker on histories told by hand: silent on a good one, and loud at the right line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from laboratory.checker.check import check
from laboratory.checker.report.report import HistoryError
from tests.laboratory.checker.story import (
    GPU,
    GPU_TASK,
    PODS,
    Story,
    good_story,
    the_first,
)


def test_good_history_keeps_every_promise(tmp_path: Path) -> None:
    report = good_story().check(tmp_path, closed=True)
    assert report.violations == ()
    assert report.ok
    assert report.summary.table() == {
        "jobs": {"submitted": 3, "finished": 3, "pending": 0},
        "tasks": {"submitted": 8, "bound": 8, "bound_twice": 0, "finished": 8},
        "gangs_partly_bound": 0,
        "gangs_across_shards": 1,  # job 1 on nodes 0, 1 and 2; job 2 is in shard 1 as a whole
        "levels": {"L1": 6, "L2": 2, "L3": 2, "L4": 0},
        "statements": {"committed": 4, "rechecked": 1, "conflicts_true": 1, "conflicts_read": 1},
        "tasks_per_second": report.summary.table()["tasks_per_second"],
        "submit_to_bound_ms": report.summary.table()["submit_to_bound_ms"],
    }


def test_times_run_from_submit_to_bind(tmp_path: Path) -> None:
    story = Story()
    submitted = story.job(1, 2)["t"]
    story.commit(1, {0: 0, 1: 1})
    first = story.acts("bind", 1, {0: 0})["t"]
    story.t += 1.0
    last = story.acts("bind", 1, {1: 1})["t"]
    summary = story.check(tmp_path).summary
    assert summary.tasks_per_second == pytest.approx(2 / (last - submitted))
    middle = ((first - submitted) + (last - submitted)) / 2 * 1000
    assert summary.submit_to_bound_ms[0] == pytest.approx(middle, rel=1e-3)


def test_cluster_events_may_come_before_their_commits(tmp_path: Path) -> None:
    """The log is copied beside the cluster's work, and may be behind by much."""
    story = good_story()
    cluster = [event for event in story.events if event["src"] == "cluster"]
    ledger = [event for event in story.events if event["src"] == "ledger"]
    story.events = ledger[:5] + cluster + ledger[5:]
    assert story.check(tmp_path, closed=True).ok


# --- promise 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["OK", "ALREADY"])
def test_second_live_binding(tmp_path: Path, answer: str) -> None:
    story = good_story()
    event = story.cluster("bind", ["9.0"], ["n0"], "OK")
    story.events.remove(event)
    at = next(i for i, e in enumerate(story.events) if e["ev"] == "start")
    second = story.cluster("bind", ["1.0"], ["n3"], answer)
    story.events.remove(second)
    story.events.insert(at, second)
    assert the_first(story, tmp_path) == (1, at + 1)
    assert story.check(tmp_path).summary.tasks_bound_twice == 1


def test_bound_again_after_its_end(tmp_path: Path) -> None:
    story = good_story()
    again = story.cluster("bind", ["1.0"], ["n0"], "OK")
    assert the_first(story, tmp_path) == (1, story.line_of(again))


def test_already_on_the_same_node_is_no_second_binding(tmp_path: Path) -> None:
    story = good_story()
    story.cluster("bind", ["1.0", "1.1"], ["n0", "n3"], "ALREADY", "ELSEWHERE")
    assert story.check(tmp_path, closed=True).ok


def test_two_starts(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    story.acts("start", 1, {0: 0})
    second = story.acts("start", 1, {0: 0})
    assert the_first(story, tmp_path) == (1, story.line_of(second))


def test_commit_of_a_task_that_is_held(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    second = story.commit(1, {0: 1}, shard="1")
    assert the_first(story, tmp_path) == (1, story.line_of(second))


def test_commit_again_after_a_refused_bind_is_allowed(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.cluster("bind", ["1.0"], ["n0"], "REFUSED")
    story.status("PENDING", 1, {0: 0})
    story.commit(1, {0: 1})
    story.run(1, {0: 1})
    assert story.check(tmp_path, closed=True).ok


# --- promise 5 --------------------------------------------------------------------------------


def test_request_that_takes_effect_twice(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    first = story.commit(1, {0: 0})
    second = story.commit(1, {1: 0})
    second["seq"] = first["seq"]
    assert the_first(story, tmp_path) == (5, story.line_of(second))


def test_same_sequence_of_another_epoch_is_another_request(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    first = story.commit(1, {0: 0})
    story.ledger("epoch", writer="0")["epoch"] = "2:def"
    second = story.commit(1, {1: 0})
    second["seq"], second["epoch"] = first["seq"], "2:def"
    story.acts("bind", 1, {0: 0, 1: 0})
    assert story.check(tmp_path).ok


def test_log_entry_told_twice(tmp_path: Path) -> None:
    story = Story()
    entry = story.ledger("refusal", shard="0", refused=[])
    story.events.append(dict(entry))
    assert the_first(story, tmp_path) == (5, len(story.events))


def test_events_of_one_entry_belong_together(tmp_path: Path) -> None:
    story = Story()
    first = story.ledger("object", keys=["a"], gone=[False])
    story.events.append(dict(first))
    first["more"] = 1
    assert story.check(tmp_path).ok


# --- the file ---------------------------------------------------------------------------------


def test_torn_last_line_is_told_and_left_out(tmp_path: Path) -> None:
    path = good_story().write(tmp_path / "history.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"t":1,"src":"led')
    report = check(path)
    assert report.torn
    assert report.ok
    assert report.events == whole.count(b"\n")


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1,"src":"cluster","ev":"bind","tasks":["x"],"nodes":["n"],"uids":["u"],"answers":["OK"]}',
        "not json",
        "[]",
        "{}",
        '{"src":"ledger","ev":"commit","id":"1-1"}',
        '{"src":"x","ev":"y"}',
    ],
)
def test_lines_that_are_no_events_are_named(tmp_path: Path, line: str) -> None:
    path = Story().write(tmp_path / "history.jsonl")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(HistoryError, match="line 6 is not an event"):
        check(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="nowhere"):
        check(tmp_path / "nowhere")


def test_many_tasks(tmp_path: Path) -> None:
    """Large enough to hang where anything is done per task and per task again."""
    size, at_once = 30_000, 500
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        story = Story()
        queue = {"qid": 1, "name": "q1", "parent": 0, "capability": None}
        story.ledger("queue", queues=[queue])
        node = {
            "row": 9,
            "name": "n9",
            "allocatable": [[PODS, size], [GPU, size * 1000]],
            "spec": 1,
        }
        story.ledger("node", nodes=[node])
        for first in range(0, size, at_once):
            jids = range(first, first + at_once)
            jobs = [story.job(jid, 1)["jobs"][0] for jid in jids]
            del story.events[-at_once:]
            story.ledger("job", jobs=jobs)
            none: dict[str, list[int]] = {"nominate": [], "dropped": []}
            alloc = {"verdict": "COMMITTED", "alloc": [[0, 9, GPU_TASK, 1]]}
            statements = [{"jid": jid, **alloc, **none} for jid in jids]
            story.ledger("commit", writer="0", shard="0", statements=statements)
            tasks = [f"{jid}.0" for jid in jids]
            for ev, state in (
                ("bind", "BOUND"),
                ("start", "RUNNING"),
                ("releasing", "RELEASING"),
                ("succeeded", "SUCCEEDED"),
            ):
                answers = ["OK"] * at_once if ev == "bind" else []
                story.cluster(ev, tasks, ["n9"] * at_once, *answers)
                story.ledger("status", items=[[state, jid, [0], [9]] for jid in jids])
            file.writelines(json.dumps(event) + "\n" for event in story.events)
            story.events.clear()
    report = check(path, closed=True)
    assert report.ok
    assert report.summary.tasks_finished == size


def test_checker_imports_nothing_of_what_it_checks() -> None:
    code = (
        "import sys, laboratory.checker.check\n"
        "parts = ('shared', 'shard_worker', 'coordinator.')\n"
        "print([m for m in sys.modules if m.startswith(parts)\n"
        "       and m != 'laboratory'\n"
        "       and not m.startswith('laboratory.checker')])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
