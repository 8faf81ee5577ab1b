"""Workloads of Kubernetes on the simulated cluster: checked as by the API server, and kept."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.documents.document import Key
from shared.errors import Refusal
from shared.manifests.parse import parse
from tests.builders.objects import workload
from tests.coordinator.intake.bench import Bench

GANG = {"gang": {"minCount": 2}}


def template(name: str = "workers", **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": GANG} | fields


def test_it_is_kept_with_all_its_templates(bench: Bench) -> None:
    written = workload("w", template("driver", schedulingPolicy={"basic": {}}), template())
    bench.take(written)
    document = bench.intake.registry.documents[Key("Workload", "ns", "w")]
    assert document.object()["spec"] == written["spec"]
    assert not bench.intake.registry.jobs


@pytest.mark.parametrize(
    ("written", "field", "message"),
    [
        (workload(podGroupTemplates=[]), "spec.podGroupTemplates", "must have 1 to 8 items"),
        (
            workload("w", *(template(f"t{i}") for i in range(9))),
            "spec.podGroupTemplates",
            "must have 1 to 8 items",
        ),
        (
            workload("w", template(), template()),
            "spec.podGroupTemplates[1].name",
            "another template has this name",
        ),
        (
            workload("w", template(schedulingPolicy={})),
            "spec.podGroupTemplates[0].schedulingPolicy",
            "must specify one of: `basic`, `gang`",
        ),
        (
            workload("w", template(disruptionMode={"single": {}, "all": {}})),
            "spec.podGroupTemplates[0].disruptionMode",
            "must specify exactly one of: `single`, `all`",
        ),
        (
            workload("w", compositePodGroupTemplates=[{"name": "tree"}]),
            "spec.compositePodGroupTemplates",
            "not in this version",
        ),
    ],
)
def test_a_wrong_one_is_refused_by_field(written: dict[str, Any], field: str, message: str) -> None:
    refusal = parse(written)
    assert isinstance(refusal, Refusal)
    assert refusal.field == field
    assert message in refusal.message


def test_nothing_but_the_minimum_may_change(bench: Bench) -> None:
    bench.take(workload())
    larger = template(schedulingPolicy={"gang": {"minCount": 3}})
    bench.take(workload("w", larger))
    for changed in (
        workload("w", template(), template("more")),
        workload("w", template(schedulingPolicy={"basic": {}})),
        workload("w", template(disruptionMode={"all": {}})),
        workload("w", controllerRef={"kind": "Job", "name": "j"}),
    ):
        (refusal,) = bench.admit(changed).refused
        assert refusal.field == "spec"
        assert "field is immutable; delete the Workload" in refusal.message
