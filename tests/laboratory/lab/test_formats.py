"""Files that are known by their header, and odd files that are read or refused by a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.lab.week import Week, WeekError

HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "81,u1,vc7,16,64,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:03:10,"
    "2020-04-01 01:03:10,3600,180\n"
    "80,u2,vcA,1,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:01:01,60,1\n"
)
ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,"
    "queue,gpu_time\n"
    "a1,u1,4,32,512,Pretrain,COMPLETED,2023-03-01 08:00:00+08:00,2023-03-01 08:00:09+08:00,"
    "2023-03-01 09:00:09+08:00,3600,9,115200\n"
    "a2,u2,1,1,16,Evaluation,COMPLETED,2023-03-01 00:00:30+00:00,2023-03-01 00:00:31+00:00,"
    "2023-03-01 00:01:31+00:00,60,1,60\n"
)
PAI = (
    "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user\n"
    "7,3,100,6.0,1.0,T4,500,u1\n9,1,40,4.0,2.0,V100,60,u2\n"
)
SLURM = (
    "JobID|User|Partition|Submit|Elapsed|AllocTRES|State\n"
    "7001|ann|gpu|2026-01-05T08:00:00|02:00:00|"
    "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=32G,node=1|COMPLETED\n"
    "7002|bob|cpu|2026-01-05T08:05:00|1-00:00:30|billing=64,cpu=64,mem=16384M,node=2|TIMEOUT\n"
)


def read(tmp_path: Path, text: str, name: str = "week.csv") -> Week:
    file = tmp_path / name
    file.write_text(text)
    return Week.read(file)


def test_helios_has_virtual_clusters_as_queues_and_pods_of_nodes(tmp_path: Path) -> None:
    week = read(tmp_path, HELIOS)
    assert list(week.name) == ["80", "81"]
    assert week.submit.tolist() == [0, 10]
    assert week.duration.tolist() == [60, 3600]
    assert week.pods.tolist() == [1, 2]
    assert week.gpus.tolist() == [1, 8]
    assert week.cpu.tolist() == [4, 32]
    assert list(week.queue) == ["vcA", "vc7"]


def test_acme_has_types_as_queues_and_two_time_zones(tmp_path: Path) -> None:
    week = read(tmp_path, ACME)
    assert week.submit.tolist() == [0, 30]
    assert week.pods.tolist() == [4, 1]
    assert week.gpus.tolist() == [8, 1]
    assert list(week.queue) == ["Pretrain", "Evaluation"]


def test_pai_has_instances_as_pods(tmp_path: Path) -> None:
    week = read(tmp_path, PAI)
    assert week.submit.tolist() == [0, 60]
    assert week.pods.tolist() == [1, 3]
    assert week.gpus.tolist() == [2, 1]
    assert list(week.user) == ["u2", "u1"]


def test_slurms_accounting_is_read_as_sacct_writes_it(tmp_path: Path) -> None:
    week = read(tmp_path, SLURM)
    assert week.submit.tolist() == [0, 300]
    assert week.duration.tolist() == [7200, 86430]
    assert week.pods.tolist() == [1, 2]
    assert week.gpus.tolist() == [2, 0]
    assert week.cpu.tolist() == [8, 32]
    assert week.memory.tolist() == [32 * 1024, 8 * 1024]
    assert list(week.queue) == ["gpu", "cpu"]


def test_steps_of_slurms_jobs_are_left_out_and_counted(tmp_path: Path) -> None:
    step = "7001.batch|ann|gpu|2026-01-05T08:00:00|02:00:00|cpu=8,mem=32G,node=1|COMPLETED\n"
    week = read(tmp_path, SLURM + step)
    assert list(week.name) == ["7001", "7002"]
    assert week.dropped == {"a step of a job (sacct -X leaves them out)": 1}


@pytest.mark.parametrize(
    "text",
    [
        "Submit,Duration,GPUs\n0,5,2\n",
        "# exported on Monday\n# by hand\nsubmit,duration,gpus\n0,5,2\n",
        "submit   duration  gpus\n0        5         2\n",
        "submit, duration, gpus\n0, 5, 2\n",
        "submit,duration,gpus,\n0,5,2,\n",
        "submit,duration,gpus\n2026-01-05 08:00:00 UTC,00:00:05,2\n",
    ],
    ids=["capitals", "comments", "aligned", "spaces", "last-comma", "utc-and-clock"],
)
def test_odd_forms_are_read(tmp_path: Path, text: str) -> None:
    week = read(tmp_path, text)
    assert (week.submit[0], week.duration[0], week.gpus[0]) == (0, 5, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"submit": 0, "duration": 5, "gpus": 2}\n', "is JSON; write its objects as the rows"),
        ("submit;duration;gpus\n0,5;7,5;1\n", "'0,5' is not a number, with a point"),
        ('submit,duration,gpus\n0,"1,000",1\n', "'1,000' is not a number, .* thousands"),
        ("submit,duration,gpus\n0,5,2 GPUs\n", r"\(for gpus\): '2 GPUs' is not a number"),
        ("submit,duration,gpus\n05/01/2026 08:00,5,2\n", "is not a date-time as 2017-10-09"),
    ],
    ids=["json", "decimal-comma", "thousands", "unit", "american-date"],
)
def test_odd_files_are_refused_by_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(WeekError, match=sentence):
        read(tmp_path, text)
