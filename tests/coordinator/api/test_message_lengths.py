"""Messages about many things name a few of them and count the others."""

from __future__ import annotations

from coordinator.api.change.refusals import invalid
from coordinator.cli.scheduling.explain_text import explanation
from coordinator.errors import Cause
from coordinator.intake.documents.kinds import JOB
from shared.errors import Refusal
from shared.manifests.parse import parse
from tests.builders.objects import job, task

NAMES = [f"role-{i:02}" for i in range(60)]


def test_a_refusal_with_many_causes() -> None:
    causes = [Cause(f"spec.tasks[{i}].name", "Invalid value: odd", "odd") for i in range(60)]
    problem = invalid(JOB, "j", *causes)
    assert problem.message.endswith(" and 55 more]")
    assert len(problem.message) < 400
    assert len(problem.causes) == 60, "programs get all of them"


def test_a_circle_of_many_roles() -> None:
    before = [NAMES[-1], *NAMES[:-1]]
    tasks = [
        task(name, dependsOn={"name": [other]}) for name, other in zip(NAMES, before, strict=True)
    ]
    refusal = parse(job("j", tasks=tasks))
    assert isinstance(refusal, Refusal)
    assert "role-04 and 55 more wait for one another" in refusal.message


def test_a_gang_of_many_roles() -> None:
    gang = [{"role": name, "running": 1, "tasks": 2, "minimum": 2, "leaving": 0} for name in NAMES]
    answer = {
        "of": {"kind": "Job", "namespace": "ns", "name": "j"},
        "queue": "q",
        "phase": "Pending",
        "ageSeconds": 1,
        "reason": "NotEnoughResources",
        "message": "m",
        "gang": gang,
    }
    text = " ".join(" ".join(explanation(answer, columns=10_000, now=0.0)).split())
    assert "and 52 more" in text
