"""Alerts and dashboard speak only of metrics and labels that the coordinator has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.service.metrics.table import PREFIX, TABLE, Metric
from tests.deploy.network import selects
from tests.deploy.rendered import FOR_METRICS, of_kind, one, pods_of, render

_METRIC = re.compile(rf"\b({PREFIX}\w+)(?:\{{([^}}]*)\}})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SUFFIXES = ("_bucket", "_count", "_sum")


def rules() -> list[dict[str, Any]]:
    (result,) = of_kind(render("shadow"), "PrometheusRule")
    return [rule for group in result["spec"]["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    text = one(render("shadow"), "ConfigMap", "quadrant-dashboard")["data"]["quadrant.json"]
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def test_expressions_speak_of_metrics_that_exist() -> None:
    for where, expression in expressions():
        check(where, expression)


@pytest.mark.parametrize(
    "wrong",
    [
        "quadrant_pending_jobs",
        'sum(quadrant_pending_tasks{queue="a"})',
        "sum by (queue) (quadrant_pending_tasks)",
        "rate(quadrant_job_wait_seconds[5m])",
        "rate(quadrant_pending_tasks[5m])",
        "sum(quadrant_binds_total)",
        "rate(quadrant_binds_total[5m]))",
        "up == 0",
    ],
)
def test_a_wrong_expression_is_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check("here", wrong)


def check(where: str, expression: str) -> None:
    assert expression.count("(") == expression.count(")"), f"{where}: {expression}"
    results = [(_metric(where, m[1]), m[1], m[2] or "") for m in _METRIC.finditer(expression)]
    assert results, f"{where}: no metric in {expression}"
    labels = {"le"} if any(name.endswith("_bucket") for _, name, _ in results) else set()
    for metric, name, matchers in results:
        labels |= set(metric.labels)
        assert set(_MATCHER.findall(matchers)) <= {*metric.labels}, f"{where}: {matchers}"
        ranged = re.search(rf"{name}(?:\{{[^}}]*\}})?\[", expression) is not None
        assert ranged == (metric.kind != "gauge"), f"{where}: a rate is for what only grows"
    for group in _GROUPING.findall(expression):
        assert {g.strip() for g in group.split(",") if g.strip()} <= labels, f"{where}: {group}"


def _metric(where: str, name: str) -> Metric:
    plain = name.removeprefix(PREFIX)
    for suffix in _SUFFIXES:
        metric = TABLE.get(plain.removesuffix(suffix))
        if plain.endswith(suffix) and metric is not None and metric.kind == "histogram":
            return metric
    assert plain in TABLE, f"{where}: no metric {name}"
    assert TABLE[plain].kind != "histogram", f"{where}: {name} has only _bucket, _count, _sum"
    return TABLE[plain]


def test_alerts_say_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        series = {
            label for m in _METRIC.finditer(rule["expr"]) for label in _metric("", m[1]).labels
        }
        assert used <= series, rule["alert"]


def test_panels_do_not_overlap_and_have_a_source() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & occupied, panel["title"]
        assert max(x for x, _ in cells) < 24
        occupied |= cells
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${source}"
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)


def test_prometheus_finds_the_coordinator() -> None:
    (monitor,) = of_kind(render("shadow"), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    credentials = endpoint["authorization"]["credentials"]
    assert {credentials["name"]: {credentials["key"]}} == FOR_METRICS
    hit = [
        service
        for service in of_kind(render("shadow"), "Service")
        if selects(monitor["spec"]["selector"], service["metadata"]["labels"])
    ]
    assert [service["metadata"]["name"] for service in hit] == ["quadrant"]
    assert endpoint["port"] in {port["name"] for port in hit[0]["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    assert pods_of(render("shadow"))
