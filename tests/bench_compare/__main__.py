"""``python -m tests.bench_compare --base REV``: the command behind ``make bench-compare``."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer
from rich.console import Console
from rich.table import Table

from tests.bench_compare.comparison import (
    Comparison,
    Figures,
    NotMeasured,
    Side,
    above,
    comparisons,
    measured_pairs,
    report,
)
from tests.bench_compare.sides import NoSuchRevision, Sides, both_sides

ROOT = Path(__file__).resolve().parents[2]
POLICY = ROOT / "examples" / "policies" / "allocate-only.yaml"
"""The policy of all figures of the past."""
SIZES = ("basic", "wide")
BOUND = 1.03
"""Maximum ratio of the costs: more than seven pairs scatter by, measured on two quiet cores."""

ABOVE, FAILED, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0."""


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    options = _options(arguments)
    more = tuple(options.more)
    try:
        with (
            _interruptible(),
            both_sides(root, options.base, policy=options.policy, more=more) as sides,
        ):
            results = [
                one for size in options.sizes for one in _compare(sides, size, options.pairs)
            ]
    except (NoSuchRevision, NotMeasured) as error:
        typer.echo(f"Error: {error}", err=True)
        return FAILED
    except KeyboardInterrupt:
        typer.echo("Interrupted; nothing is left behind", err=True)
        return INTERRUPTED
    report_lines = report(
        results, base=options.base, policy=str(options.policy), bound=options.bound
    )
    if options.output == "json":
        typer.echo(json.dumps(report_lines))
    else:
        _show(results, options)
    return ABOVE if above(results, options.bound) else 0


def _options(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench_compare", description=__doc__)
    parser.add_argument("--base", required=True, help="revision to compare the working tree with")
    parser.add_argument("--pairs", type=_at_least_one, default=7, help="measurements of each side")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--bound", type=float, default=BOUND, help="highest median that passes")
    parser.add_argument("--policy", type=Path, default=POLICY, help="policy file of both sides")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("more", nargs="*", help="after --: further arguments of quadrant bench")
    return parser.parse_args(arguments)


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _interruptible() -> Iterator[None]:
    """The first of these signals interrupts, which cleans up; further ones do not stop that."""
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup wants it ignored
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _compare(sides: Sides, size: str, count: int) -> list[Comparison]:
    pairs: list[dict[Side, Figures]] = []
    for number, pair in measured_pairs(sides.measure, size=size, count=count):
        pairs.append(pair)
        for one in comparisons(size, [pair]):
            ratio = f"{one.typical(Side.BASE):.1f} -> {one.typical(Side.TREE):.1f} us a task"
            text = f"{size} {number} of {count}, {one.workload}: {ratio} ({one.median:.3f})"
            typer.echo(text, err=True)
    return comparisons(size, pairs)


def _show(comparisons: list[Comparison], options: Namespace) -> None:
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = f"Processor time a task, all processes: working tree against {options.base}"
    table.add_column("size")
    table.add_column("workload")
    for name in ("base", "tree", "median ratio", "range", "pairs"):
        table.add_column(name, justify="right")
    for one in comparisons:
        table.add_section()
        table.add_row(
            one.size,
            one.workload,
            f"{one.typical(Side.BASE):,.1f} us",
            f"{one.typical(Side.TREE):,.1f} us",
            f"{one.median:.3f}",
            f"{one.lowest:.3f} to {one.highest:.3f}",
            str(len(one.pairs)),
        )
        for role in one.roles:
            costs = (f"{one.typical_of(role, side):,.1f} us" for side in Side)
            table.add_row("", role, *costs, style="dim")
    Console(width=100).print(table)
    high = above(comparisons, options.bound)
    verdict = f"above {options.bound:g}: {', '.join(f'{o.size} {o.workload}' for o in high)}"
    typer.echo(f"Policy: {options.policy}")
    typer.echo(f"Median {verdict}" if high else f"No median is above {options.bound:g}")


if __name__ == "__main__":
    sys.exit(main())
