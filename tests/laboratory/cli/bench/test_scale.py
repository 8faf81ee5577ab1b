"""``quadrant bench scale``: the projection, its sentences, and the page with the same figures."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import COORDINATOR, LEDGER
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize
from laboratory.cli.bench.bench_run import run_bench
from laboratory.cli.bench.scale_report import scale_report
from laboratory.cli.bench.scale_result import limits_of, rows_of, scale_result

LOAD = "separate pods"


def run(
    shards: int, *, mode: str = "soft", workers: float = 120.0, lost: int = 0
) -> dict[str, Any]:
    """What a bench gave: the coordinator takes 40 us a task, the ledger 20."""
    costs = {COORDINATOR: 40.0, LEDGER: 20.0, cpu_time.WORKERS: workers}
    part = {
        "tasks": 100,
        "tasks_per_second": 5000.0,
        "submit_to_bound_ms": {"p50": 1.0, "p99": 2.0, "p999": 3.0},
        "cpu_us_per_task": costs,
        "statements": {
            "committed": 100 - lost,
            "rechecked": 7,
            "conflicts_true": lost,
            "conflicts_read": 0,
        },
        "levels": {"L1": 60, "L2": 30, "L3": 0, "L4": 10},
        "nodes_in_use": 12,
    }
    policy = {"file": None, "actions": ["allocate"], "plugins": []}
    head = {"nodes": 50, "shards": shards, "mode": mode, "policy": policy}
    return head | {"workloads": {LOAD: part}}


def test_a_projection_is_by_the_process_with_most_to_do() -> None:
    values = scale_result([run(1), run(2), run(4)], cores=2)
    loads = [each["loads"][LOAD] for each in values["runs"]]
    limits = [(load["limit"], load["projected_per_second"]) for load in loads]
    # 120 us are 120, 60 and 30 for each of 1, 2 and 4 workers; the coordinator has 40.
    assert limits == [
        (cpu_time.WORKERS, 8333),
        (cpu_time.WORKERS, 16667),
        (COORDINATOR, 25000),
    ]
    assert limits_of(values, LOAD) == ["soft: the coordinator is the limit from 4 shards on"]


def test_refused_statements_are_wasted_and_l2_and_l4_are_elsewhere() -> None:
    values = scale_result([run(2, lost=25)], cores=2)
    load = values["runs"][0]["loads"][LOAD]
    assert (load["wasted_share"], load["on_other_shards_share"]) == (0.25, 0.4)
    assert limits_of(values, LOAD) == ["soft: the workers are the limit with each of these numbers"]


def test_the_page_has_the_cells_of_the_table_and_a_line_for_each_mode() -> None:
    runs = [run(shards, mode=mode) for mode in ("soft", "hard") for shards in (1, 2)]
    values = scale_result(runs, cores=2)
    html = scale_report(values)
    page = _ScalePage()
    page.feed(html)
    assert page.rows == [row[1:] for row in rows_of(values, LOAD)]
    assert page.lines == 2 + 2 + 3  # two plots of two modes, one of three roles
    assert "http" not in html.replace("HTTP", "")


class _ScalePage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.lines = 0
        self._cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        self._cell = tag == "td"
        self.lines += tag == "polyline"

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1].append(data)
            self._cell = False

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self.rows.clear()


def options(size: str, shards: str | None = None, mode: str = "soft") -> BenchOptions:
    return BenchOptions(BenchSize(size), None, None, shards, mode)


def test_numbers_and_modes_are_read_and_others_are_refused() -> None:
    assert (options("basic").shards, options("scale").numbers) == (4, (1, 2, 4, 8, 16))
    assert [mode.value for mode in options("scale", "1", "soft, hard").modes] == ["soft", "hard"]
    with pytest.raises(CommandError, match="--mode: 'gentle' is none of none, soft, hard"):
        assert options("scale", mode="gentle").modes
    with pytest.raises(CommandError, match="'1,0' is not a list of numbers from 1 to 256"):
        assert options("scale", "1,0").numbers


@pytest.mark.parametrize(
    ("size", "shards", "mode", "message"),
    [
        ("basic", "1,2", "soft", "--shards: basic runs once; several are for scale"),
        ("fill", "1", "soft,hard", "--mode: fill runs once"),
    ],
)
def test_other_shapes_take_one_of_each(size: str, shards: str, mode: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run_bench(options(size, shards, mode))
