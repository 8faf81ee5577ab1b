"""KAI's orders of jobs, tasks and sub groups as a service's Order sorts by them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.groups import PodSet, SubGroupSet, elastic_class
from shard_worker.dialects.open_session import open_session
from shard_worker.session_model.status import Status
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.messages.messages import Group
from shared.model.model import Job, Role
from shared.policy.dialect import parse_policy

SERVICE = open_session(parse_policy({"dialect": "kai"}))
GROUPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4)
"""(members with a place, minimum) of each sub group."""


class Task(NamedTuple):
    status: Status
    gated: bool = False
    evicted: bool = False


def job_of(subs: list[tuple[int, int]]) -> JobInfo:
    least = sum(minimum for _, minimum in subs)
    groups = (Group(parent=-1, minimum=least), *(Group(parent=0, minimum=m) for _, m in subs))
    job = Job(
        jid=0,
        namespace="ns",
        name="j",
        kind="PodGroup",
        uid="",
        queue="q",
        created=0.0,
        groups=groups,
        role_minima=tuple((f"s{at}", minimum) for at, (_, minimum) in enumerate(subs)),
    )
    held = [sum(held for held, _ in subs), *(held for held, _ in subs)]
    return JobInfo(job, 0, held, [0] * len(held), [0] * len(held))


def tree_of(subs: list[tuple[int, int]]) -> SubGroupSet[Task]:
    running = Task(Status.RUNNING)
    return SubGroupSet(
        "", [PodSet(f"s{at}", least, [running] * held) for at, (held, least) in enumerate(subs)]
    )


@given(GROUPS.filter(bool))
def test_jobs_and_sub_groups_have_the_order_of_a_session(subs: list[tuple[int, int]]) -> None:
    info, tree = job_of(subs), tree_of(subs)
    assert SERVICE.job_key(info, ClusterInfo())[1] == elastic_class(tree)
    roles = [Role(f"r{at}", 0, at, 1, group=1 + at) for at in range(len(subs))]
    ordered = sorted(roles, key=lambda one: (SERVICE.role_key(info, one), one.first))
    assert [info.job.role_minima[r.group - 1][0] for r in ordered] == [
        member.name for member in tree.ordered()
    ]


JOB_ROLE, REPLICA = "training.kubeflow.org/job-role", "training.kubeflow.org/replica-type"
NODE, PRIORITY = "ray.io/node-type", "kai.scheduler/task-priority"


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([{}, {JOB_ROLE: "master"}], [1, 0]),
        ([{JOB_ROLE: "worker"}, {REPLICA: "Launcher"}], [1, 0]),
        ([{NODE: "worker"}, {}, {NODE: "head"}], [2, 0, 1]),
        ([{}, {PRIORITY: "2"}, {PRIORITY: "7"}, {PRIORITY: "high"}], [2, 1, 0, 3]),
        ([{PRIORITY: "9"}, {NODE: "head"}, {JOB_ROLE: "master"}], [2, 1, 0]),
        ([{}, {}], [0, 1]),
    ],
)
def test_which_pod_of_a_job_goes_first(pods: list[dict[str, str]], expected: list[int]) -> None:
    roles = [
        Role(f"p{at}", 0, at, 1, labels=tuple(sorted(labels.items())))
        for at, labels in enumerate(pods)
    ]
    info = job_of([])
    ordered = sorted(roles, key=lambda one: (SERVICE.role_key(info, one), one.first))
    assert [one.first for one in ordered] == expected
