"""Kueue's performance test: what is generated, and a small part measured again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from laboratory.papers.kueue.experiment import TIME, USE, file_of, play_configuration
from laboratory.papers.kueue.generator import Generated, class_of
from laboratory.papers.paper import PaperError


@pytest.fixture
def baseline(shared_reference: Path) -> Path:
    return file_of(shared_reference / "data", "baseline")


def test_all_jobs_and_queues_are_generated(baseline: Path) -> None:
    generated = Generated.read(baseline)
    kinds = Counter(class_of(name) for name in generated.week.name)
    assert kinds == {"small": 10_500, "medium": 3000, "large": 1500}
    assert generated.quota == 600
    assert len(generated.queues) == 5 + 30
    specs = {queue["metadata"]["name"]: queue["spec"] for queue in generated.queues}
    assert specs["cohort-0"]["capability"] == {"cpu": "120"}
    leaf = {"parent": "cohort-0", "deserved": {"cpu": "20"}, "capability": {"cpu": "120"}}
    assert specs["cohort-0-cq-5"] == {"weight": 1, **leaf}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1\n")
    with pytest.raises(PaperError, match="is no configuration of Kueue's generator"):
        Generated.read(file)


def test_one_cohort_of_a_configuration(baseline: Path) -> None:
    generated = Generated.read(baseline, cohorts=1)
    assert len(generated.week) == 3000
    assert set(generated.week.queue) == {f"cohort-0-cq-{number}" for number in range(6)}
    assert generated.quota == 120


def test_a_small_part_measured_again(baseline: Path) -> None:
    """Two jobs of a hundred: no queue has to wait long."""
    measured = play_configuration(baseline, 1, jobs_of_hundred=2)
    # The last large job begins a second of work 1.1 s after the first submission, or when the
    # quota of its cohort is free again.
    assert 2.1 < measured[TIME] < 3.2
    work = 6 * (7 * 0.2 + 2 * 0.5 * 5 + 1.0 * 20)
    assert measured[USE] == pytest.approx(100 * work / 120 / measured[TIME], rel=0.05)
    assert measured["small s"] < measured["large s"] < 1.1
