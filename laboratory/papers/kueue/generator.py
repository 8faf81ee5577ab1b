"""The generator of Kueue's performance test: cohorts of queues, and the jobs of each queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from laboratory.lab.week import Week
from laboratory.papers.paper import PaperError
from laboratory.workloads.manifests import Item, manifest

MILLISECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Generated:
    """The jobs and queues of one configuration."""

    week: Week
    """The name of a job begins with its class: ``large/12``."""
    queues: Sequence[Item]
    quota: float
    """Cores of all queues together."""

    @classmethod
    def read(
        cls, file: Path, *, cohorts: int | None = None, jobs_of_hundred: int = 100
    ) -> Generated:
        """``cohorts``: maximum number of cohorts of each kind. ``jobs_of_hundred``: the part of
        each set of jobs that is generated, rounded up. Raises :class:`PaperError`."""
        try:
            kinds = yaml.safe_load(file.read_text())["cohorts"]
            return _generate(kinds, cohorts, jobs_of_hundred / 100)
        except OSError as error:
            raise PaperError(f"{file}: cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise PaperError(
                f"{file}: is no configuration of Kueue's generator ({type(error).__name__}: "
                f"{error}); get it again"
            ) from None


def class_of(name: str) -> str:
    """The class of the job with this name."""
    return name.partition("/")[0]


def _generate(kinds: list[dict[str, Any]], most: int | None, share: float) -> Generated:
    rows: list[tuple[float, float, int, float, str, int, str]] = []
    queues: list[Item] = []
    quota = 0.0
    for kind in kinds:
        for number in range(int(kind["count"]))[:most]:
            cohort = f"{kind['className']}-{number}"
            nominal = 0.0
            leaves: list[Item] = []
            for queue_set in kind["queuesSets"]:
                for leaf in range(int(queue_set["count"])):
                    name = f"{cohort}-{queue_set['className']}-{leaf}"
                    own, more = float(queue_set["nominalQuota"]), float(queue_set["borrowingLimit"])
                    nominal += own
                    leaves.append(
                        _queue(name, parent=cohort, deserved=_cpu(own), capability=_cpu(own + more))
                    )
                    rows += _jobs(queue_set["workloadsSets"], name, share)
            queues += [_queue(cohort, deserved=_cpu(nominal), capability=_cpu(nominal)), *leaves]
            quota += nominal
    submit, duration, pods, cpu, queue, priority, classes = zip(*rows, strict=True)
    week = Week.of(
        submit=submit,
        duration=duration,
        gpus=np.zeros(len(rows)),
        pods=pods,
        cpu=cpu,
        queue=queue,
        priority=priority,
        name=[f"{name}/{number}" for number, name in enumerate(classes)],
    )
    return Generated(week, queues, quota)


def _jobs(
    sets: list[dict[str, Any]], queue: str, share: float
) -> list[tuple[float, float, int, float, str, int, str]]:
    """Every set submits its jobs at equal intervals, the first one after one interval."""
    return [
        (
            (number + 1) * jobs["creationIntervalMs"] * MILLISECONDS,
            job["runtimeMs"] * MILLISECONDS,
            int(job.get("podCount", 1)),
            _cores(job["request"]),
            queue,
            int(job["priority"]),
            str(job["className"]),
        )
        for jobs in sets
        for number in range(int(np.ceil(jobs["count"] * share)))
        for job in jobs["workloads"]
    ]


def _cores(request: str | int) -> float:
    text = str(request)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _cpu(cores: float) -> dict[str, str]:
    return {"cpu": f"{cores:g}"}


def _queue(name: str, **spec: Any) -> Item:
    return manifest("Queue", name, {"weight": 1, **spec})
