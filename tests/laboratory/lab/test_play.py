"""A week on virtual time: the service's own parts decide, and the result follows from the seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laboratory import Cluster, Week, run
from laboratory.lab.measures import measured
from laboratory.lab.week import WeekError
from tests.conftest import ROOT
from tests.laboratory.lab.weeks import small

KAI = ROOT / "examples/policies/kai-default.yaml"


def test_a_result_follows_from_its_seed() -> None:
    week, cluster = small()
    first, again, other = (run(week, cluster, shards=2, seed=seed) for seed in (7, 7, 8))
    assert first.end.tolist() == again.end.tolist()
    assert first.end.tolist() != other.end.tolist()
    assert (first.wait >= 0).all()
    assert np.allclose(first.run_time, first.week.duration)


def test_jobs_arrive_as_they_did_or_all_at_once() -> None:
    week, cluster = small()
    played = run(week, cluster)
    assert (played.start >= week.submit).all()
    assert played.start[0] < 1.0  # a message takes milliseconds of the week
    backlog = run(week, cluster, backlog=True)
    assert backlog.submit.tolist() == [0.0] * 12
    assert backlog.end.max() < played.end.max()


@pytest.mark.parametrize("policy", [None, KAI])
def test_a_pod_has_its_gpus_on_one_node(policy: Path | None) -> None:
    week = Week.of(submit=[0, 1, 2], duration=[500] * 3, gpus=[3, 3, 2])
    played = run(week, Cluster.equal(2, gpus=4), policy=policy)
    # Eight GPUs would hold all eight that are asked for; after 3 and 3 no node has two left.
    assert sorted(played.start.round(-2).tolist()) == [0, 0, 500]


def test_jobs_with_a_part_of_a_gpu_share_one_under_a_policy_of_kai() -> None:
    week = Week.of(submit=[0, 1, 2, 3], duration=[500] * 4, gpus=[0.5, 0.25, 0.333, 0.25])
    # The third would fit the two GPUs together, not one of them: 0.75 of the first is taken.
    played = run(week, Cluster.equal(1, gpus=1), policy=KAI)
    assert played.start.round(-2).tolist() == [0, 0, 500, 0]
    assert played.jct[2] == pytest.approx(1000, abs=10)
    two = run(week, Cluster.equal(1, gpus=2), policy=KAI)
    assert (two.wait < 10).all()
    assert measured(two)["sor"] == pytest.approx(1.333 * 500 / (2 * 503), rel=0.01)


def test_parts_of_a_gpu_are_left_out_where_a_policy_has_no_word_for_them() -> None:
    week = Week.of(submit=[0, 1], duration=[500] * 2, gpus=[0.5, 1])
    played = run(week, Cluster.equal(1, gpus=1))
    assert played.week.dropped == {"a part of a GPU, which takes a policy of KAI's": 1}
    assert played.week.gpus.tolist() == [1]


def test_a_job_larger_than_a_node_is_a_gang_of_whole_nodes_and_the_rest() -> None:
    week = Week.of(submit=[0, 1], duration=[500, 500], gpus=[10, 2], cpu=[5, 1])
    played = run(week, Cluster.equal(3, gpus=4))
    assert (played.week.pods[0], played.week.gpus[0], played.week.rest[0]) == (2, 4, 2)
    assert played.week.cores[0] == pytest.approx(5)
    assert np.bincount(played.runs.job).tolist() == [3, 1]
    assert played.start.max() < 10  # both at once: 12 GPUs
    assert played.week.size.tolist() == [10, 2]


def test_gangs_of_pods_start_together() -> None:
    week = Week.of(submit=[0, 1], duration=[500, 500], gpus=[2, 2], pods=[3, 2])
    played = run(week, Cluster.equal(2, gpus=4))
    second = played.runs.start[played.runs.job == 1]
    assert len(second) == 2
    assert (second > 500).all()


def test_cores_and_memory_bound_a_pod() -> None:
    week = Week.of(submit=[0, 1], duration=[500, 500], gpus=[0, 0], cpu=[3, 3], memory=[100, 100])
    tight = run(week, Cluster.equal(1, gpus=0, cpu=4.0, memory=1000.0))
    assert tight.start[1] > 500
    assert run(week, Cluster.equal(1, gpus=0, cpu=6.0, memory=150.0)).start[1] > 500


def test_an_evicted_pod_runs_again_from_the_beginning() -> None:
    week = Week.of(submit=[0, 200], duration=[1000, 300], gpus=[4, 4], priority=[1, 10])
    played = run(week, Cluster.equal(1, gpus=4), policy=KAI, speedup=100)
    assert played.evictions.tolist() == [1, 0]
    assert played.start[1] < 300
    kept = played.runs.end - played.runs.start
    assert sorted(kept[~played.runs.evicted].round().tolist()) == [300, 1000]
    assert played.end[0] == pytest.approx(1500, abs=10)


def test_jobs_without_room_are_left_out_by_reason() -> None:
    week = Week.of(submit=[0, 1], duration=[10, 10], gpus=[1, 9])
    played = run(week, Cluster.equal(2, gpus=4))
    assert len(played.week) == 1
    assert played.week.dropped == {"no room on the empty cluster": 1}
    with pytest.raises(WeekError, match="none of its jobs fits the cluster of 1 nodes"):
        run(Week.of(submit=[0], duration=[1], gpus=[9]), Cluster.equal(1, gpus=4))


def test_jobs_that_never_start_are_named(tmp_path: Path) -> None:
    policy = tmp_path / "idle.yaml"
    policy.write_text('actions: "enqueue"\ntiers:\n- plugins:\n  - name: gang\n')
    with pytest.raises(WeekError, match=r"0 of 12 jobs started .* waiting are job 0, job 1, job 2"):
        run(*small(), policy=policy)


def test_a_policy_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeekError, match=r"absent.yaml: cannot be read: No such file"):
        run(*small(), policy=tmp_path / "absent.yaml")
