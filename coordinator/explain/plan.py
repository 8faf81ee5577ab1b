"""The result of a plan: what would become of each job of a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.intake.admission.result import Admission
from coordinator.jobs.pending_reasons import Why
from shard_worker.inquiry.findings import InquiryFinding
from shared.model.model import Job


class PlanVerdict(StrEnum):
    NOW = "now"  # its gang has room on idle nodes
    LATER = "later"  # it would be nominated: tasks that are leaving make room
    WAITS = "waits"  # not now; what runs has to end, or somebody has to do something
    NEVER = "never"  # nothing that ends makes room for it


BEST_FIRST = tuple(PlanVerdict)


@dataclass(slots=True)
class Planned:
    """One job of the list and its expected result."""

    job: Job
    exists: bool
    """Whether it exists already and would be changed."""
    verdict: PlanVerdict = PlanVerdict.WAITS
    why: Why | None = None
    finding: InquiryFinding | None = None
    shard: int = -1
    silent: str = ""
    """Why no worker was asked, where one should have been."""


@dataclass(slots=True)
class Plan:
    """``revision``: the log position of the workers that were asked."""

    admission: Admission
    names: list[str]
    jobs: list[Planned] = field(default_factory=list)
    revision: str = ""
