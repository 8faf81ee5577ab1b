"""The checker on promise 6: every task is somewhere, and both sides agree where."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.checker.report.report import CheckReport
from tests.laboratory.checker.story import (
    BEST_EFFORT,
    GPU_TASK,
    Story,
    good_story,
    the_first,
)


def test_bind_without_commit(tmp_path: Path) -> None:
    story = good_story()
    story.job(4, 1)
    stray = story.acts("bind", 4, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(stray))


def test_bind_to_another_node_than_committed(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    stray = story.acts("bind", 1, {0: 1})
    assert the_first(story, tmp_path) == (6, story.line_of(stray))


def test_lost_commit_event(tmp_path: Path) -> None:
    story = good_story()
    story.events = [e for e in story.events if not (e["ev"] == "commit" and e["shard"] == "1")]
    bind = next(e for e in story.events if e["ev"] == "bind" and e["tasks"][0] == "2.0")
    assert the_first(story, tmp_path) == (6, story.line_of(bind))


@pytest.mark.parametrize("ev", ["start", "releasing", "succeeded", "failed"])
def test_report_of_a_task_that_was_never_bound(tmp_path: Path, ev: str) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    event = story.acts(ev, 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(event))


def test_two_ends(tmp_path: Path) -> None:
    story = good_story()
    again = story.acts("succeeded", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(again))


def test_the_ledger_finished_a_task_that_the_cluster_did_not(tmp_path: Path) -> None:
    story = good_story()
    story.events = [
        e for e in story.events if not (e["ev"] == "succeeded" and e["tasks"][0] == "2.0")
    ]
    finished = [e for e in story.events if e["ev"] == "status" and e["items"][0][1] == 2][-1]
    assert the_first(story, tmp_path) == (6, story.line_of(finished))


def test_the_ledger_gave_up_a_task_that_the_cluster_runs(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    given_up = story.status("PENDING", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(given_up))


def test_state_that_cannot_follow(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    status = story.status("BOUND", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(status))


def test_commit_of_a_task_that_was_never_submitted(tmp_path: Path) -> None:
    for jid, tix in ((9, 0), (1, 5)):
        story = Story()
        story.job(1, 1)
        commit = story.commit(jid, {tix: 0})
        assert the_first(story, tmp_path) == (6, story.line_of(commit))


def test_open_run_may_stop_anywhere_a_closed_one_may_not(tmp_path: Path) -> None:
    story = Story()
    submitted = story.job(1, 2)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    assert story.check(tmp_path).ok
    assert the_first(story, tmp_path, closed=True) == (6, story.line_of(submitted))
    first = story.check(tmp_path, closed=True).first
    assert first is not None
    assert "2 submitted = 1 pending + 1 in flight + 0 held" in first.message


def test_deleted_tasks_need_not_finish(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    story.ledger("job_gone", jids=[1])
    story.acts("releasing", 1, {0: 0})
    story.acts("failed", 1, {0: 0})
    story.status("FAILED", 1, {0: 0})
    story.ledger("job_forgotten", jids=[1])
    assert story.check(tmp_path, closed=True).ok


def test_how_a_task_ended_counts_as_long_as_the_cluster_knows_it(tmp_path: Path) -> None:
    """An API server does not know it any more once the pod is deleted."""
    for erased in (False, True):
        story = Story()
        story.job(1, 1)
        story.commit(1, {0: 0})
        for ev in ("bind", "start", "succeeded", *(["erased"] if erased else [])):
            story.acts(ev, 1, {0: 0})
        lost = story.status("LOST", 1, {0: 0})
        if erased:
            assert story.check(tmp_path).ok
        else:
            assert the_first(story, tmp_path) == (6, story.line_of(lost))


def test_a_deleted_best_effort_member_counts_for_no_gang(tmp_path: Path) -> None:
    """With it the gang had its minimum, without it the commit leaves the gang in the middle."""
    for deleted in (False, True):
        story = Story()
        roles = [[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 1, 0]]
        story.job(1, 3, minimum=3, roles=roles)
        if deleted:
            story.status("FAILED", 1, {2: 0})
            story.job(1, 3, minimum=3, roles=roles, spec=2)
        story.commit(1, {0: 0, 1: 0})
        (tmp_path / str(deleted)).mkdir()
        report = story.check(tmp_path / str(deleted))
        assert report.broken == ({3: 1} if deleted else {}), deleted


def test_a_deleted_job_is_forgotten_in_the_end(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_gone", jids=[1])
    assert "never forgotten" in _only(story.check(tmp_path, closed=True))


def test_nothing_that_holds_a_node_is_forgotten(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0, 1: 0})
    story.ledger("job_gone", jids=[1])
    story.ledger("job_forgotten", jids=[1])
    assert "was forgotten, but task 0 is BINDING" in _only(story.check(tmp_path))


def test_a_job_that_stays_is_not_forgotten(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_forgotten", jids=[1])
    assert "was forgotten, but not deleted" in _only(story.check(tmp_path))


def test_a_deleted_job_gets_no_place(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_gone", jids=[1])
    story.commit(1, {0: 0, 1: 0})
    assert "committed after its deletion" in _only(story.check(tmp_path))


def test_a_queue_that_is_in_use_does_not_go(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0, 1: 0})
    story.ledger("queue_gone", qids=[1])
    assert "queue 1 is gone" in _only(story.check(tmp_path))


def _only(report: CheckReport) -> str:
    """The message of the one violation there is."""
    (violation,) = report.violations
    assert violation.promise == 6
    return violation.message


def test_every_cut_of_a_good_history_is_good(tmp_path: Path) -> None:
    """A history ends where its run was killed."""
    story = good_story()
    events = story.events
    for end in range(1, len(events) + 1):
        story.events = events[:end]
        assert story.check(tmp_path).violations == ()


# --- adoption -------------------------------------------------------------------------------------


def adopt(
    story: Story, jid: int, places: dict[int, int], *, state: str = "RUNNING"
) -> dict[str, object]:
    rows = [*places.values()]
    return story.ledger("adopted", items=[[state, jid, [*places], rows, GPU_TASK, 0]])


def test_the_ledger_follows_a_task_to_where_the_cluster_has_it(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 3})
    story.cluster("bind", ["1.1"], ["n2"], "OK")
    assert not story.check(tmp_path).ok
    adopt(story, 1, {0: 3, 1: 2}, state="BOUND")
    for ev, state in (("start", "RUNNING"), ("releasing", "RELEASING"), ("succeeded", "SUCCEEDED")):
        story.acts(ev, 1, {0: 3, 1: 2})
        story.status(state, 1, {0: 3, 1: 2})
    report = story.check(tmp_path, closed=True)
    assert report.violations == ()


def test_adopted_tasks_hold_their_node_even_beyond_its_capacity(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3)
    story.job(2, 1)
    adopt(story, 1, {0: 0, 1: 0, 2: 0})  # the node offers two
    assert 2 not in story.check(tmp_path).broken
    story.commit(2, {0: 0})
    report = story.check(tmp_path)
    assert [v.promise for v in report.violations if v.promise == 2] == [2]


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED"])
def test_adopting_an_ended_task_is_a_violation(tmp_path: Path, state: str) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.status(state, 1, {0: 0})
    wrong = adopt(story, 1, {0: 1})
    assert the_first(story, tmp_path) == (6, story.line_of(wrong))


def test_a_task_on_a_node_that_is_not_known_is_not_adopted(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    wrong = adopt(story, 1, {0: 77})
    assert the_first(story, tmp_path) == (6, story.line_of(wrong))


def test_a_best_effort_member_that_failed_is_taken_away_once(tmp_path: Path) -> None:
    """Its failure counts once, and not again when the job is stored with two of three members."""
    story = Story()
    roles = [[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 2, 0]]
    story.job(1, 4, minimum=3, roles=roles)
    story.commit(1, {2: 0}, cid=BEST_EFFORT)
    story.status("FAILED", 1, {2: 0})
    story.job(1, 4, minimum=3, roles=roles, spec=2)
    story.commit(1, {0: 0, 1: 0})
    assert story.check(tmp_path).broken == {}
