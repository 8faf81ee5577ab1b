"""What a user reads when a process ended by itself."""

from __future__ import annotations

from pathlib import Path

from coordinator.supervisor.child_process import ChildDied

EARLIER = '{"ts":"1","level":"info","event":"Started","logger":"l"}\n'
REFUSED = '{"ts":"2","level":"error","event":"Cannot listen","why":"8080 is taken","logger":"l"}\n'


def test_the_reason_of_the_last_line_is_all_that_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "coordinator.log"
    log.write_text(EARLIER + REFUSED)
    assert str(ChildDied("coordinator", 1, log)).splitlines() == [
        "the coordinator process ended with exit code 1: Cannot listen: 8080 is taken",
        f"Its log: {log}",
    ]


def test_without_a_reason_the_end_of_the_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "coordinator.log"
    log.write_text(REFUSED + EARLIER)
    assert str(ChildDied("coordinator", 1, log)).splitlines() == [
        f"the coordinator process ended with exit code 1; the end of {log}:",
        *(f"  {line}" for line in (REFUSED + EARLIER).splitlines()),
    ]
