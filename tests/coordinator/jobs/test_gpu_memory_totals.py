"""GPUs that tasks hold, or wait for, by MiB: charged by the node, and released as charged."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.state import JobState, open_job
from shard_worker.session_model.workload import QueueInfo
from shared.messages.messages import Group, TaskState
from shared.model.gpu_request import GpuRequest
from shared.model.kai_devices import with_gpus
from shared.model.model import Job, Node, Queue, Role, TaskClass
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE
from tests.examples import examples

NAMES = ["cpu", "memory", "pods", GPU_SHARE, *NON_PREEMPTIBLE]
GPUS, PROTECTED = 3, 6
CLASSES = {
    0: TaskClass(requests=((2, 1),), gpu_share=GpuRequest(2, memory=350)),
    1: TaskClass(requests=((2, 1),), charges=((PROTECTED, 0),), gpu_share=GpuRequest(1, memory=90)),
    2: TaskClass(requests=((2, 1),), gpu_share=GpuRequest(1, part=500, portion=0.5)),
}
MEMORIES = [2000, 600, 400, 0]
STATES = [TaskState.PENDING, TaskState.BINDING, TaskState.RUNNING, TaskState.RELEASING]
LEAF = 1


def node(row: int, memory: int) -> Node:
    labels = {"nvidia.com/gpu.memory": str(memory)} if memory else {}
    return Node(row, f"n{row}", allocatable=((2, 10),), labels=labels)


def accounts_with(nodes: list[Node]) -> Accounts:
    accounts = Accounts()
    accounts.classes.update(CLASSES)
    accounts.cluster.names = NAMES
    for each in nodes:
        accounts.put_node(each)
    for qid, name in enumerate(["top", "leaf", "other"]):
        queue = Queue(qid, name, parent=0 if qid else -1)
        accounts.cluster.queues[qid] = QueueInfo(queue=queue)
    accounts.unlinked = True
    accounts.begin(0.0)
    return accounts


def all_nodes() -> list[Node]:
    return [node(row, memory) for row, memory in enumerate(MEMORIES)]


def job_of(jid: int, *cids: int, gated: bool = False) -> JobState:
    """A job of queue leaf with three tasks of each class."""
    roles = [Role(f"r{i}", cid, 3 * i, 3, gated=gated) for i, cid in enumerate(cids)]
    groups = (Group(parent=-1, minimum=1),)
    job = Job(jid, "ns", f"j{jid}", "Job", "", "leaf", 0.0, groups=groups, roles=tuple(roles))
    return open_job(job, qid=LEAF, classes=CLASSES)


@pytest.mark.parametrize(("row", "charge"), [(0, 50), (1, 150), (2, 230)])
def test_a_placed_task_is_charged_by_its_node(row: int, charge: int) -> None:
    accounts, state = accounts_with(all_nodes()), job_of(0, 1)
    top, leaf = (accounts.cluster.queues[qid] for qid in (0, LEAF))
    accounts.admit(state)
    assert leaf.claims_requested == {GPUS: 3 * 230, PROTECTED: 3 * 230}, "as on the smallest"
    state.put_rows([0], [row])
    accounts.move(state, [0], TaskState.BINDING)
    assert leaf.claimed == {GPUS: charge, PROTECTED: charge}
    assert top.below is not None
    assert top.below.claimed == leaf.claimed
    assert leaf.claims_requested[GPUS] == 2 * 230 + charge
    state.clear_rows([0])
    accounts.move(state, [0], TaskState.PENDING)
    assert not any(leaf.claimed.values())
    assert leaf.claims_requested[GPUS] == 3 * 230


def test_an_open_turn_is_charged_at_most_and_a_nominated_task_by_its_node() -> None:
    accounts, state = accounts_with(all_nodes()), job_of(0, 0)
    leaf = accounts.cluster.queues[LEAF]
    accounts.admit(state)
    accounts.promise(state, [(0, 2)])
    assert leaf.claimed == {GPUS: 2 * 2 * 880}
    state.nominated = {0: 0}
    accounts.promise(state, [(0, 2)])
    assert leaf.claimed == {GPUS: 2 * 880 + 2 * 180}
    accounts.give_back(state)
    assert not any(leaf.claimed.values())


def test_a_turn_is_charged_as_much_as_any_task_of_its_job_may_come_to() -> None:
    """Its worker may place another task than the one that was counted."""
    accounts, state = accounts_with(all_nodes()), job_of(0, 1, 0)
    leaf = accounts.cluster.queues[LEAF]
    accounts.admit(state)
    accounts.promise(state, [(1, 1)])
    assert leaf.claimed[GPUS] == 2 * 880
    assert accounts.most(state, ((1, 1),)) == {2: 1, GPUS: 2 * 880, PROTECTED: 230}


def test_waiting_tasks_count_once_a_node_says_how_large_its_devices_are() -> None:
    accounts = accounts_with([node(0, 0)])
    leaf = accounts.cluster.queues[LEAF]
    accounts.admit(job_of(0, 0))
    accounts.admit(job_of(1, 0, gated=True))
    assert not any(leaf.claims_requested.values())
    accounts.put_node(node(1, 600))
    assert leaf.claims_requested == {GPUS: 3 * 2 * 590}
    accounts.put_node(node(2, 400))
    assert leaf.claims_requested == {GPUS: 3 * 2 * 880}
    accounts.drop_node(2)
    assert leaf.claims_requested == {GPUS: 3 * 2 * 590}


def test_a_node_that_was_not_known_counts_from_the_next_session() -> None:
    """As after a restart: states come before rows."""
    accounts, state = accounts_with(all_nodes()), job_of(0, 1)
    leaf = accounts.cluster.queues[LEAF]
    state.states[:] = bytes([TaskState.RUNNING] * 3)
    accounts.admit(state)
    assert leaf.claimed[GPUS] == 3 * 230
    state.put_rows([0, 1, 2], [0, 1, 2])
    accounts.begin(1.0)
    assert leaf.claimed[GPUS] == 50 + 150 + 230


def test_totals_by_differences_are_those_of_new_accounts() -> None:
    for seed in range(examples(200)):
        rng = Random(seed)
        accounts = accounts_with([])
        states = [job_of(jid, *rng.choices([0, 1, 2], k=2)) for jid in range(3)]
        for state in states:
            accounts.admit(state)
        nodes = {each.row: each for each in all_nodes()}
        for each in nodes.values():
            accounts.put_node(each)
        for _ in range(20):
            state = rng.choice(states)
            tasks = rng.sample(range(6), 2)
            new = rng.choice(STATES)
            if new is TaskState.PENDING:
                state.clear_rows(tasks)
            else:
                state.put_rows(tasks, rng.choices(list(nodes), k=2))
            accounts.move(state, tasks, new)
            accounts.promise(state, [(role.cid, 1) for role in state.job.roles[:1]])
            if rng.random() < 0.3:
                accounts.forget(state)
                accounts.admit(state)
            if rng.random() < 0.5:
                accounts.give_back(state)
        fresh = accounts_with(list(nodes.values()))
        for state in states:
            accounts.give_back(state)
            fresh.admit(state)
        for total in ("claimed", "claims_requested"):
            kept, new_total = (
                {slot: n for slot, n in getattr(books.cluster.queues[LEAF], total).items() if n}
                for books in (accounts, fresh)
            )
            assert kept == new_total, (seed, total)


def test_devices_of_which_no_node_says_how_large_they_are_bound_a_turn() -> None:
    """KAI takes them for the smallest that there are."""
    gpus = with_gpus((), (("nvidia.com/gpu", 2000),))
    book = accounts_with([Node(0, "n0", allocatable=((2, 10),), annotations=gpus)]).gpu_memory
    assert book.bound(CLASSES[1], most=True) == book.bound(CLASSES[1], most=False) == 900
    assert book.bound(CLASSES[0], most=True) == 0, "no device holds it"
