"""Rolling back restores the view exactly, whatever rows arrived in between (promise 7)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.placement.statement import ViewStatement, runs_of
from shard_worker.view.view import View
from shared.messages.messages import ALLOCATE, NOMINATE, Level, Rows
from shared.units.slots import CPU, PODS
from tests.examples import examples
from tests.shard_worker.placement.support import cls, cpus, record, view_of

ROWS = 5
CLASSES = {0: cls(1), 1: cls(2.5)}


def fresh_view() -> View:
    return view_of([record(allocatable=cpus(8))] * ROWS, classes=CLASSES)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 1), st.integers(0, ROWS - 1), st.booleans()),
        st.tuples(st.just("withdraw"), st.integers(0, 1), st.integers(0, ROWS - 1), st.booleans()),
        st.tuples(st.just("row"), st.integers(2, 9), st.integers(0, ROWS - 1), st.booleans()),
    ),
    max_size=60,
)


def run(
    view: View, statement: ViewStatement | None, listed: list[tuple[str, int, int, bool]]
) -> None:
    """Do the steps; without a statement only the rows that arrive."""
    for task, (what, number, row, flag) in enumerate(listed):
        if what == "row":
            used = {CPU: number * 100, PODS: number}
            packed = record(version=number, allocatable=cpus(8), used=used, nominated=used)
            view.set_rows(Rows([row], [packed]))
        elif statement is None:
            continue
        elif what == "withdraw":
            statement.withdraw(CLASSES[number], row)
        else:
            statement.place(
                cid=number,
                group=0,
                task=task,
                row=row,
                level=Level.IDLE_OWN,
                kind=ALLOCATE if flag else NOMINATE,
            )


@given(steps, steps, steps)
@settings(max_examples=examples(150))
def test_rollback_equals_never_having_been(
    before: list[tuple[str, int, int, bool]],
    kept: list[tuple[str, int, int, bool]],
    undone: list[tuple[str, int, int, bool]],
) -> None:
    view, plain = fresh_view(), fresh_view()
    other, same = ViewStatement(view), ViewStatement(plain)
    run(view, other, before)
    run(plain, same, before)
    statement = ViewStatement(view)
    twin = ViewStatement(plain)
    run(view, statement, kept)
    run(plain, twin, kept)
    checkpoint = statement.checkpoint
    run(view, statement, undone)
    run(plain, None, undone)
    statement.rollback(checkpoint)
    assert view.columns.image() == plain.columns.image()
    statement.rollback()
    twin.rollback()
    assert view.columns.image() == plain.columns.image()
    other.rollback()
    assert view.columns.settled


def test_placements_name_the_versions_that_they_relied_on() -> None:
    view = fresh_view()
    view.set_rows(Rows([2], [record(version=9, allocatable=cpus(8))]))
    statement = ViewStatement(view)
    for task, (cid, row) in enumerate([(0, 2), (0, 1), (1, 2)]):
        statement.place(cid=cid, group=0, task=task, row=row, level=Level.IDLE_OWN, kind=ALLOCATE)
    first, second = runs_of(statement.placed())
    assert (first.cid, first.tasks, first.rows, first.versions) == (0, [0, 1], [2, 1], [9, 1])
    assert (second.cid, second.tasks, second.specs) == (1, [2], [1])
