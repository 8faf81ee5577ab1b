"""minruntime of KAI: who has not run for long enough keeps the minimum of every pod set.

The times are those of queues: against a preempt from the victim's own queue up, against a reclaim
from just below the lowest queue that is above both (or from its own, if the policy says so). Else
it is the plugin's default. They count from the start of the job's first task that runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import RUNNING, CheckedJob
from laboratory.checker.state.kai import GROUP
from laboratory.checker.state.kai_groups import short_pod_sets
from laboratory.checker.state.policy import CheckedPolicy

PLUGIN = "minruntime"
SLACK_SECONDS = 1.0
"""The start that a PodGroup remembers for the next leader is written in whole seconds."""
NEW_SECONDS = 2.0
"""For so long a change of a queue may be in the ledger and not in the books of whoever decides."""

_DEFAULTS = {"preempt": "defaultPreemptMinRuntime", "reclaim": "defaultReclaimMinRuntime"}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class MinRuntimes:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def broken(
        self, eviction: Eviction, victims: list[CheckedVictim], policies: list[CheckedPolicy]
    ) -> str:
        """Why the victims of one job may not go yet; "" where they may."""
        if eviction.action not in _DEFAULTS:
            return ""
        books, job = self._books, victims[0].job
        if books.t - books.kai_queues.changed < NEW_SECONDS:
            return ""
        runtime = min((self._runtime(eviction, job, policy) for policy in policies), default=0.0)
        began = self._began(job, victims)
        if began is None or books.t >= began + runtime - SLACK_SECONDS:
            return ""
        short = self._short(job, victims)
        if not short:
            return ""
        ran = books.t - began
        return (
            f"left {short} below its minimum after {ran:.1f} s, of {runtime:g} s that it keeps it"
        )

    def _runtime(self, eviction: Eviction, victim: CheckedJob, policy: CheckedPolicy) -> float:
        arguments = policy.arguments(PLUGIN)
        if arguments is None:
            return 0.0
        queues = self._books.kai_queues
        chain, action = queues.branch(victim.qid), eviction.action
        if action == "reclaim" and arguments.get("reclaimResolveMethod", "lca") == "lca":
            shared = set(queues.branch(eviction.job.qid))
            below = [name for name in chain if name not in shared]
            chain = chain[max(len(below) - 1, 0) :]
        own = queues.min_runtime(chain, action)
        return _seconds(arguments.get(_DEFAULTS[action], "0s")) if own is None else own

    def _began(self, job: CheckedJob, victims: list[CheckedVictim]) -> float | None:
        """When the job's first task that ran just now began to; None where that is not known. What
        its PodGroup remembers of an earlier run may be older."""
        running = {tix for tix, state in enumerate(job.states) if state == RUNNING}
        running |= {victim.tix for victim in victims if victim.ran}
        if not running or any(tix not in job.began for tix in running):
            return None
        facts: Mapping[str, Any] = self._books.objects.get(GROUP + job.key, {})
        remembered = facts.get("last_start")
        began = min(job.began[tix] for tix in running)
        return began if remembered is None else min(began, remembered)

    def _short(self, job: CheckedJob, victims: list[CheckedVictim]) -> str:
        """A group of the job that holds less than its minimum, those that move included; "" where
        none does."""
        moved_tasks = [victim.tix for victim in victims if victim.to >= 0]
        facts = self._books.objects.get(GROUP + job.key)
        if facts is not None and facts.get("sub_groups"):
            short = short_pod_sets(job, facts, self._books.best_effort, moved_tasks)
            return f"pod set {short[0]}" if short else ""
        for above in dict.fromkeys(a for v in victims for a in job.chain(job.group_of[v.tix])):
            remaining = job.held[above] + sum(
                above in job.chain(job.group_of[tix]) for tix in moved_tasks
            )
            if remaining < job.groups[above][1]:
                return f"group {above}"
        return ""


def _seconds(text: str) -> float:
    """A duration as Go writes it."""
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
