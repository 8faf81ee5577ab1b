"""extender: rules that a process of the user's own answers over HTTP.

The core does no I/O. A rule whose answer is not known yet raises :class:`Unanswered`; the caller of
the session (:mod:`shard_worker.turns.extender_http`) asks outside of it, puts the answers into
``world.objects.extender``, and runs the session anew: being deterministic it reaches the same
question, and finds the answer. So each question is asked once for a session.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import ABSTAIN, PERMIT, REJECT, Check, Mask, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.workload import ClusterInfo, JobInfo, QueueInfo
from shard_worker.session_model.world import World
from shared.policy.model import PluginOption

REFUSED = "node(s) were refused by the extender"
UNANSWERED = "node(s) count as refused: the extender did not answer"
FAILED = "failed"
"""Key of the answer when the extender did not reply; its value is the error."""

Answer = Mapping[str, Any]

WITHOUT = {
    "predicate": ("the nodes count as refused", "the nodes pass"),
    "prioritize": ("the nodes score nothing", "the nodes score nothing"),
    "preemptable": ("nobody may be evicted", "it has no say in who is evicted"),
    "reclaimable": ("nobody may be evicted", "it has no say in who is evicted"),
    "queueOverused": ("the queue counts as overused", "the queue counts as within its share"),
    "jobEnqueueable": ("the job is not admitted", "it has no say in who is admitted"),
}
"""Point -> what is decided without an answer: as it is, and with ``extender.ignorable``."""
REASONS = 8
"""Maximum number of sentences about missing answers; the others are counted as one."""


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """A request to the extender: the body is posted to the address."""

    url: str
    body: str
    """JSON with sorted keys, so that equal questions have equal bodies."""
    timeout: float
    """Seconds to wait for the answer."""

    @property
    def key(self) -> str:
        return f"{self.url} {self.body}"


class Unanswered(Exception):
    """The session needs the answers to these questions before it can go on."""

    def __init__(self, *questions: ExtenderQuestion) -> None:
        super().__init__(f"{len(questions)} questions to the extender")
        self.questions = questions


class Extender:
    """Arguments: ``extender.urlPrefix``, ``extender.httpTimeout`` (1s), the verbs
    (``extender.predicateVerb`` and so on; a rule without one is silent), ``extender.ignorable``
    (false: what is not answered is refused), ``extender.managedResources`` (tasks that ask for
    none of them are not asked about)."""

    name = "extender"

    def __init__(self, option: PluginOption) -> None:
        self.url = option.text("extender.urlPrefix").rstrip("/")
        self.timeout = option.duration("extender.httpTimeout", 1.0)
        self._ignorable = option.switch("extender.ignorable", False)
        listed = option.text("extender.managedResources").split(",")
        self._managed = {name.strip() for name in listed if name.strip()}
        self._verbs = {
            point: option.text(f"extender.{point}Verb")
            for point in (
                "predicate",
                "prioritize",
                "preemptable",
                "reclaimable",
                "queueOverused",
                "jobEnqueueable",
                "jobReady",
            )
        }

    def on_session_open(self, ssn: Session) -> None:
        if not self.url:
            ssn.warn("extender.urlPrefix: not given, nobody is asked")
            return
        if self._verbs["predicate"]:
            ssn.add_live_predicate_fn(self._predicate, scope=Scope.NODE)
        if self._verbs["prioritize"]:
            ssn.add_batch_node_order_fn(self._prioritize)
        if self._verbs["preemptable"]:
            ssn.add_preemptable_fn(lambda *args: self._victims("preemptable", *args))
        if self._verbs["reclaimable"]:
            ssn.add_reclaimable_fn(lambda *args: self._victims("reclaimable", *args))
        if self._verbs["queueOverused"]:
            ssn.add_overused_fn(self._overused)
        if self._verbs["jobEnqueueable"]:
            ssn.add_job_enqueueable_fn(self._enqueueable)

    # --- rules --------------------------------------------------------------------------------

    def _predicate(self, task: TaskInfo, world: World) -> list[Check]:
        """Ask about all nodes at once: one question per node, sent concurrently."""
        if not self._manages(task, world):
            return []
        nodes = [(row, node.name) for row, node in enumerate(world.view.nodes) if node is not None]
        questions = [
            self._question("predicate", {"task": _task(task), "node": name}) for _, name in nodes
        ]
        mask = np.ones(world.size, np.bool_)
        unanswered: dict[str, Mask] = {}
        for (row, _), answer in zip(nodes, self._answers(questions, world), strict=True):
            if FAILED not in answer:
                mask[row] = not answer.get("code", 0)
            elif not self._ignorable:
                error = str(answer[FAILED])
                unanswered.setdefault(error, np.ones(world.size, np.bool_))[row] = False
        checks = [Check(f"{UNANSWERED} ({error})", each) for error, each in unanswered.items()]
        return [Check(REFUSED, mask), *checks]

    def _prioritize(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        if not self._manages(task, world):
            return np.zeros(len(rows))
        names = [world.node(row).name for row in rows.tolist()]
        question = self._question("prioritize", {"task": _task(task), "nodes": names})
        scores = self._answers([question], world)[0].get("nodeScore") or {}
        return np.array([_number(scores.get(name)) for name in names], np.float64)

    def _victims(
        self, point: str, evictor: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo] | None:
        body = {"evictor": _task(evictor), "evictees": [_task(task) for task in candidates]}
        answer = self._answers([self._question(point, body)], world)[0]
        if FAILED in answer:
            return None if self._ignorable else []
        named = {str(victim) for victim in answer.get("victims") or ()}
        return [task for task in candidates if task.key in named]

    def _overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool:
        answer = self._asked_of(cluster, "queueOverused", {"queue": queue.queue.name})
        if answer is None:
            return False
        return not self._ignorable if FAILED in answer else bool(answer.get("overused"))

    def _enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        answer = self._asked_of(cluster, "jobEnqueueable", {"job": info.job.key})
        if answer is None:
            return ABSTAIN
        if FAILED in answer:
            return ABSTAIN if self._ignorable else REJECT
        status = _number(answer.get("status"))
        return PERMIT if status > 0 else REJECT if status < 0 else ABSTAIN

    # --- what has no answer -------------------------------------------------------------------

    def unanswered(self, answers: Mapping[str, object]) -> dict[str, int]:
        """Count the decisions made without an answer: sentence -> number of questions."""
        points = {f"{self.url}/{verb}": point for point, verb in self._verbs.items() if verb}
        counts: Counter[str] = Counter()
        for key, answer in answers.items():
            parsed = _answer(answer)
            if FAILED in parsed:
                point = points[key.partition(" ")[0]]
                then = WITHOUT[point][self._ignorable]
                counts[f"extender.{point}Verb: no answer ({parsed[FAILED]}); {then}"] += 1
        frequent = dict(counts.most_common(REASONS))
        if rest := counts.total() - sum(frequent.values()):
            frequent["further questions to the extender had no answer"] = rest
        return frequent

    # --- asking -------------------------------------------------------------------------------

    def _manages(self, task: TaskInfo, world: World) -> bool:
        if not self._managed:
            return True
        names = world.view.slot_names
        return any(s < len(names) and names[s] in self._managed for s, _ in task.requests)

    def _question(self, point: str, body: Mapping[str, object]) -> ExtenderQuestion:
        url = f"{self.url}/{self._verbs[point]}"
        return ExtenderQuestion(url, json.dumps(body, sort_keys=True), self.timeout)

    def _asked_of(
        self, cluster: ClusterInfo, point: str, body: Mapping[str, object]
    ) -> Answer | None:
        """The extender's answer at a point; None for Order's totals, since only sessions can
        wait."""
        if not isinstance(cluster, World):
            return None
        return self._answers([self._question(point, body)], cluster)[0]

    def _answers(self, questions: Sequence[ExtenderQuestion], world: World) -> list[Answer]:
        cache = world.objects.extender
        missing = [question for question in questions if question.key not in cache]
        if missing:
            raise Unanswered(*missing)
        return [_answer(cache[question.key]) for question in questions]


def _answer(answer: object) -> Answer:
    return answer if isinstance(answer, Mapping) else {FAILED: "no JSON object"}


def _task(task: TaskInfo) -> dict[str, object]:
    """The task in the extender's JSON form."""
    return {
        "name": task.name,
        "namespace": task.job.job.namespace,
        "job": task.job.job.key,
        "role": task.role.name,
        "priority": task.priority,
        "labels": dict(task.role.labels),
        "annotations": dict(task.role.annotations),
    }


def _number(value: object) -> float:
    """The value if it is a number, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value)
