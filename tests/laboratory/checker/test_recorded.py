"""Histories of before: recorded by earlier versions, and still read."""

from __future__ import annotations

from pathlib import Path

from laboratory.checker.check import check
from laboratory.cli.chaos.chaos_check import run_check

RECORDED = Path(__file__).parent / "recorded"


def test_a_history_of_before_it_had_facts_is_read_and_clean() -> None:
    """Some jobs of a demo, cut out of its history: no numbers of log entries, no policy, no facts
    of nodes, no acknowledgements."""
    report = check(RECORDED / "demo_without_facts.jsonl", closed=True)
    assert report.violations == ()
    assert report.summary.tasks_finished == 86
    rows = {row.rule: row.state for row in report.rows}
    unseen = {"acknowledged", "node-rules", "eviction-policy"}
    assert {rows[rule] for rule in unseen} == {"not exercised"}
    assert {rows[rule] for rule in ("bound-once", "epoch", "gang-whole", "freed")} == {"held"}
    assert run_check(RECORDED / "demo_without_facts.jsonl") == 0
