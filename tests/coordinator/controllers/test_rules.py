"""Consequences of task states for a Job, by example and for any state."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.controllers.job_controller import Action, End, Expire, Grow, JobController, Note
from coordinator.controllers.job_rules import Rules, Ruling, may_begin, outcome, rules_of, rulings
from coordinator.intake.documents.document import Document, Key
from shared.errors import Refusal
from shared.manifests.parse import parse
from shared.manifests.volcano.objects import JobManifest
from shared.manifests.volcano.policies import ACTIONS, EVENTS
from shared.messages.messages import Group, TaskState
from shared.model.model import Job, Role
from tests.builders.objects import Item
from tests.coordinator.controllers.support import job, task, when

KEY = Key("Job", "ns", "j")
SIGNS = {
    ".": TaskState.PENDING,
    "b": TaskState.BINDING,
    "r": TaskState.RUNNING,
    "l": TaskState.RELEASING,
    "s": TaskState.SUCCEEDED,
    "f": TaskState.FAILED,
}


class Standing:
    """A job and where its tasks stand, one word a role: ``a=rr b=sf``. A role left out does not
    exist yet."""

    def __init__(self, words: str, minimum: int = 1) -> None:
        roles, states = [], bytearray()
        for word in words.split():
            name, _, signs = word.partition("=")
            roles.append(Role(name, 0, len(states), len(signs)))
            states += bytes(SIGNS[sign] for sign in signs)
        self.job = Job(
            0, "ns", "j", "Job", "u", "q", 0.0, groups=(Group(-1, minimum),), roles=tuple(roles)
        )
        self.states = states
        self.incarnations: dict[int, int] = {}
        self.evicted: frozenset[int] = frozenset()
        self.admitted = True
        self.in_part = False

    def ruling(self, body: Item) -> Ruling | None:
        rules = rules_of(document(body))
        return None if rules is None else next(rulings(rules, self, {}), None)


def document(body: Item, *, jid: int = 0, state: dict[str, Any] | None = None) -> Document:
    return Document(KEY, orjson.dumps(body), 5.0, 1, jid, None, state)


def rules(body: Item) -> Rules:
    result = rules_of(document(body))
    assert result is not None
    return result


# --- policies -------------------------------------------------------------------------------------

OF_TASK = job(
    "j",
    task("a", 2, policies=[when("TaskCompleted", "CompleteJob")]),
    task("b", 2, policies=[when("PodFailed", "TerminateJob")]),
    policies=[when("*", "RestartJob")],
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a=rr b=rr", None),
        ("a=sr b=rr", None),
        ("a=ss b=rr", ("CompleteJob", "TaskCompleted", "a")),
        ("a=sr b=ss", ("RestartJob", "TaskCompleted", "b")),
        ("a=rf b=rr", ("RestartJob", "PodFailed", "a")),
        ("a=rr b=rf", ("TerminateJob", "PodFailed", "b")),
        ("a=ss b=rf", ("TerminateJob", "PodFailed", "b")),
        ("a=.. b=bl", None),
        ("a=s a=s b=rr", ("CompleteJob", "TaskCompleted", "a")),  # in parts
        ("a=s a=r b=rr", None),
        ("a=f a=r b=rr", ("RestartJob", "PodFailed", "a")),
    ],
)
def test_the_policies_of_a_role_come_before_those_of_the_job(
    words: str, expected: tuple[str, str, str] | None
) -> None:
    standing = Standing(words)
    ruling = standing.ruling(OF_TASK)
    assert expected == (None if ruling is None else (ruling.action, ruling.event, ruling.role))


def test_a_job_without_policies_has_no_rules() -> None:
    assert rules_of(document(job("j", task("a")))) is None
    assert rules_of(document(job("policies", task("a"), policies=[]))) is None


HEARD_OR_NOT = (*EVENTS[:2], "TaskFailed")
policies = st.lists(st.tuples(st.sampled_from(HEARD_OR_NOT), st.sampled_from(ACTIONS)), max_size=3)
words = st.text("".join(SIGNS), min_size=1, max_size=4)


@given(policies, policies, words, words)
def test_only_events_with_a_policy_are_acted_on(
    of_task: list[tuple[str, str]], of_job: list[tuple[str, str]], a: str, b: str
) -> None:
    """Against the same said in another way, over events one by one."""
    mine, whole = dict(reversed(of_task)), dict(reversed(of_job))
    body = job(
        "j",
        task("a", len(a), policies=[when(*pair) for pair in mine.items()]),
        task("b", len(b)),
        policies=[when(*pair) for pair in whole.items()],
    )
    standing = Standing(f"a={a} b={b}")
    failed = [mine.get("PodFailed", whole.get("PodFailed"))] if "f" in a else []
    failed += [whole.get("PodFailed")] if "f" in b else []
    ended = [mine.get("TaskCompleted", whole.get("TaskCompleted"))] if set(a) == {"s"} else []
    ended += [whole.get("TaskCompleted")] if set(b) == {"s"} else []
    expected = next((action for action in failed + ended if action), None)
    ruling = standing.ruling(body)
    assert expected == (ruling.action if ruling else None)


# --- roles that wait ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("iteration", "words", "expected"),
    [
        ("all", "a=rr b=.", []),
        ("all", "a=rr b=r", ["c"]),
        ("all", "a=ss b=r", ["c"]),
        ("all", "a=rf b=r", []),
        ("all", "a=ll b=r", []),
        ("any", "a=r. b=.", []),
        ("any", "a=r. b=r", ["c"]),
        ("any", "a=rr b=r c=r", []),
        ("all", "a=r a=r b=r", ["c"]),  # in parts
        ("all", "a=r a=. b=r", []),
    ],
)
def test_a_role_begins_when_those_it_waits_for_run(
    iteration: str, words: str, expected: list[str]
) -> None:
    after = task("c", 1, after=["a", "b"], iteration=iteration)
    standing = Standing(words)
    body = job("j", after, task("a", 2), task("b"))
    assert may_begin(rules(body), standing.job, standing.states) == expected


def test_a_chain_begins_one_by_one_and_a_minimum_is_enough() -> None:
    body = job(
        "j", task("c", after=["b"]), task("b", 2, after=["a"], minimum=1), task("a", 2, minimum=1)
    )
    for words, expected in (("a=..", []), ("a=r.", ["b"]), ("a=rr b=..", []), ("a=rr b=.r", ["c"])):
        standing = Standing(words)
        assert may_begin(rules(body), standing.job, standing.states) == expected


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (job("j", task("a", after=["b"]), task("b", after=["a"])), "spec.tasks", "a, b wait for"),
        (job("j", task("a", after=["a"])), "spec.tasks", "break the circle"),
        (job("j", task("a", after=["x"])), "spec.tasks[0].dependsOn.name", "no task has this name"),
        (job("j", task("a"), maxRetry=-1), "spec.maxRetry", "from 0"),
        (job("j", task("a"), ttlSecondsAfterFinished="1"), "spec.ttlSecondsAfterFinished", "from"),
        (job("j", task("a", policies=[when("PodDead", "RestartJob")])), "event", "write one of"),
        (
            job("j", task("a"), policies=[when("*", "RestartTusk")]),
            "spec.policies[0].action",
            "unknown",
        ),
        (
            job("j", task("a"), policies=[{"action": "AbortJob"}]),
            "spec.policies[0].event",
            "missing",
        ),
        (job("j", task("a"), policies=[{"event": "*"}]), "spec.policies[0].action", "missing"),
        (
            job("j", task("a"), policies=[when("*", "AbortJob"), when("PodFailed", "AbortJob")]),
            "spec.policies[1].event",
            "leave out the others",
        ),
        (
            job("j", task("a"), policies=[when("PodFailed", a) for a in ACTIONS[:2]]),
            "spec.policies[1].event",
            "name each event once",
        ),
        (
            job("j", task("a"), policies=[when("*", "AbortJob") | {"timeout": "5"}]),
            "spec.policies[0].timeout",
            "not a duration",
        ),
    ],
)
def test_an_invalid_policy_is_refused_with_its_field(body: Item, field: str, words: str) -> None:
    refusal = parse(body)
    assert isinstance(refusal, Refusal)
    assert refusal.field.endswith(field)
    assert words in refusal.message


# --- what is kept and not done --------------------------------------------------------------------

KEPT = [
    when("PodPending", "AbortJob"),
    when("TaskFailed", "RestartJob"),
    when("Unknown", "RestartPod"),
]


@pytest.mark.parametrize("policy", KEPT)
def test_an_unsupported_policy_is_kept_with_a_notice(policy: dict[str, Any]) -> None:
    body = job("j", task("a", 2), policies=[policy])
    manifest = parse(body)
    assert isinstance(manifest, JobManifest)
    (notice,) = manifest.notices
    assert notice.startswith("spec.policies[0]: ") and "kept" in notice
    assert manifest.policies == ()
    assert rules_of(document(body)) is None


def test_an_exit_code_is_that_of_what_failed() -> None:
    policies = [{"exitCode": 3, "action": "AbortJob"}, when("PodFailed", "RestartJob")]
    for code, expected in ((3, "AbortJob"), (4, "RestartJob")):
        failing = task("a", 2, policies=policies)
        failing["template"]["metadata"] = {"annotations": {"quadrant.dev/exit-code": str(code)}}
        standing = Standing("a=rf")
        ruling = standing.ruling(job("j", failing))
        assert ruling is not None
        assert ruling.action == expected


def test_enough_successes_end_a_job() -> None:
    body = job("j", task("a", 3), minSuccess=2)
    for words, expected in (("a=srr", None), ("a=ssr", "CompleteJob")):
        standing = Standing(words)
        ruling = standing.ruling(body)
        assert (None if ruling is None else ruling.action) == expected
    standing = Standing("a=sff")
    assert outcome(standing.job, standing.states, 2) == "Failed"
    assert outcome(standing.job, standing.states, 1) == "Completed"


def test_an_mpi_master_waits_for_its_workers() -> None:
    mpi = ["--master=head", "--worker=arms", "--port=22"]
    body = job("j", task("head"), task("arms", 2), plugins={"mpi": mpi, "ssh": []})
    standing = Standing("arms=r.")
    assert may_begin(rules(body), standing.job, standing.states) == []
    standing = Standing("arms=rr")
    assert may_begin(rules(body), standing.job, standing.states) == ["head"]


def test_a_volume_of_a_job_is_one_of_each_pod() -> None:
    body = job("j", task("a"), volumes=[{"mountPath": "/a", "volumeClaimName": "disk"}])
    manifest = parse(body)
    assert isinstance(manifest, JobManifest)
    constraints = manifest.roles[0].template.constraints
    assert constraints is not None
    assert constraints.volumes == ("disk",)


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "minimum", "expected"),
    [
        ("a=sr", 1, None),
        ("a=ss", 2, "Completed"),
        ("a=sf", 2, "Failed"),
        ("a=sf", 1, "Completed"),
        ("a=ff", 1, "Failed"),
    ],
)
def test_without_policy_its_minimum_decides(words: str, minimum: int, expected: str | None) -> None:
    standing = Standing(words, minimum)
    assert outcome(standing.job, standing.states) == expected


# --- the controller -------------------------------------------------------------------------------

RETRY = job("j", task("a", 2), policies=[when("PodFailed", "RestartJob")], maxRetry=2)


def controller(body: Item, standing: Standing, **kept: Any) -> tuple[JobController, list[Action]]:
    live = {0: standing}
    job_controller = JobController(live.get)
    job_controller.published([document(body, state=kept or None)], (), 100.0)
    return job_controller, job_controller.take(100.0)


def test_a_restart_is_requested_once() -> None:
    standing = Standing("a=rr")
    job_controller, actions = controller(RETRY, standing)
    assert actions == []
    standing.states[0] = TaskState.FAILED
    job_controller.recorded([0, 1], 101.0)
    job_controller.recorded([0], 102.0)
    (action,) = job_controller.take(103.0)
    assert isinstance(action, End)
    assert action.state["phase"] == "Restarting"
    assert (action.state["next"], action.state["retryCount"]) == ("Pending", 1)
    assert (action.state["failed"], action.state["since"]) == (1, 101.0)
    job_controller.published([document(RETRY, state=action.state)], (), 104.0)
    job_controller.recorded([0], 105.0)
    assert job_controller.take(106.0) == []


def test_a_job_that_began_anew_too_often_fails() -> None:
    _, (action,) = controller(RETRY, Standing("a=rf"), retryCount=1)
    assert isinstance(action, End)
    assert (action.state["next"], action.state["retryCount"]) == ("Failed", 2)


@pytest.mark.parametrize("event", ["PodEvicted", "*"])
def test_an_evicted_pod_is_an_event_of_its_role(event: str) -> None:
    body = job("j", task("a", 2, policies=[when(event, "RestartJob")]), task("b", 2))
    standing = Standing("a=rr b=rr")
    job_controller, actions = controller(body, standing)
    standing.incarnations[2] = 1
    job_controller.recorded([0], 101.0)
    assert actions == job_controller.take(101.0) == []
    standing.incarnations[1] = 1
    job_controller.recorded([0], 102.0)
    (action,) = job_controller.take(102.0)
    assert isinstance(action, End)
    assert action.state["message"] == "PodEvicted in task a: RestartJob"


WAITS = job("j", task("a", 2), policies=[when("PodPending", "AbortJob") | {"timeout": "1m30s"}])


def test_a_pod_may_be_pending_for_a_time() -> None:
    standing = Standing("a=r.")
    job_controller, actions = controller(WAITS, standing)
    assert actions == []
    assert job_controller.next_due() == 190.0
    assert job_controller.take(189.0) == []
    (action,) = job_controller.take(190.0)
    assert isinstance(action, End)
    assert action.state["next"] == "Aborted"
    assert job_controller.take(1000.0) == []


def test_a_time_that_is_over_in_between_begins_anew() -> None:
    standing = Standing("a=r.")
    job_controller, _ = controller(WAITS, standing)
    standing.states[1] = TaskState.RUNNING
    job_controller.recorded([0], 150.0)
    standing.states[1] = TaskState.PENDING
    job_controller.recorded([0], 180.0)
    assert job_controller.take(200.0) == []
    job_controller.published(
        [document(WAITS)], (), 210.0
    )  # a change of the Job does not begin it anew
    assert len(job_controller.take(270.0)) == 1


def test_a_pod_is_pending_from_the_admission_of_its_job() -> None:
    standing = Standing("a=..")
    standing.admitted = False
    job_controller, _ = controller(WAITS, standing)
    at = 100.0
    while at < 1000.0:
        at = job_controller.next_due() or 0.0
        assert job_controller.take(at) == []
    standing.admitted = True
    at = job_controller.next_due() or 0.0
    assert job_controller.take(at) == []
    assert job_controller.take(at + 89.0) == []
    assert len(job_controller.take(at + 90.0)) == 1


def test_an_immediate_action_comes_before_a_delayed_one() -> None:
    slowly = when("PodFailed", "RestartJob") | {"timeout": "1h"}
    body = job("j", task("a", 2), policies=[slowly, when("PodEvicted", "AbortJob")])
    standing = Standing("a=f.")
    standing.incarnations[1] = 1
    _, (action,) = controller(body, standing)
    assert isinstance(action, End)
    assert action.state["reason"] == "PodEvicted"


def test_nothing_is_kept_of_jobs_without_rules() -> None:
    job_controller, actions = controller(job("j", task("a", 2)), Standing("a=ff"))
    assert actions == []
    job_controller.recorded([0], 101.0)
    assert not job_controller.asks
    assert job_controller.next_due() is None


def test_it_is_deleted_when_its_time_is_over_unless_another_has_its_name() -> None:
    body = job("j", task("a", 2), ttlSecondsAfterFinished=10)
    job_controller, (action,) = controller(body, Standing("a=ss"))
    assert action == Note(KEY, 0, {"phase": "Completed", "retryCount": 0, "ended": 100.0})
    job_controller.published([document(body, state=action.state)], (), 101.0)
    assert job_controller.next_due() == 110.0
    assert job_controller.take(109.0) == []
    assert job_controller.take(110.0) == [Expire(KEY, 5.0)]
    job_controller.published([document(body, state=action.state)], (), 101.0)
    job_controller.published([], [KEY], 102.0)
    assert job_controller.take(111.0) == []


def test_a_job_is_not_over_while_roles_wait() -> None:
    body = job(
        "j", task("b", after=["a"]), task("a", minimum=0), minAvailable=1, ttlSecondsAfterFinished=0
    )
    standing = Standing("a=f")
    job_controller, actions = controller(body, standing)
    assert actions == [Grow(KEY, 0, ["b"])]
    job_controller.failed(0)
    job_controller.recorded([0], 101.0)
    assert job_controller.take(101.0) == actions
