"""Free amounts of a device on every row: on all rows at once as on each alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shard_worker.view.node_things import NodeThings
from shared.ledger.records import WIDTH, pack_thing

ROWS, NAMES = 5, ("gpu/0", "gpu/1")
AMOUNTS = st.integers(0, 1000)
RECORDS = st.dictionaries(
    st.tuples(st.integers(0, ROWS - 1), st.sampled_from(NAMES)),
    st.lists(AMOUNTS, min_size=2 * WIDTH, max_size=2 * WIDTH),
)


def test_neither_used_nor_promised_is_free() -> None:
    things = NodeThings()
    things.set([(1, "gpu/0", pack_thing(1, [1000, 300, 100, 50, 70, 100, 10, 0, 10, 0]))])
    assert things.names("gpu/") == ["gpu/0"]
    assert things.names("vgpu/") == []
    assert things.at("gpu/0", 2, 1) == ((1000, 100), (580, 90))
    assert things.at("gpu/0", 2, 0) == ((0, 0), (0, 0)), "what no node declares is not there"
    assert things.free("gpu/0", 2, 3).tolist() == [[0, 580, 0], [0, 90, 0]]


@given(records=RECORDS)
def test_all_rows_at_once_are_each_row_alone(
    records: dict[tuple[int, str], list[int]],
) -> None:
    things = NodeThings()
    things.set([(row, name, pack_thing(1, flat)) for (row, name), flat in records.items()])
    for name in NAMES:
        free, offered = things.free(name, 2, ROWS), things.offered(name, 2, ROWS)
        for row in range(ROWS):
            assert things.at(name, 2, row) == (tuple(offered[:, row]), tuple(free[:, row]))
            flat = records.get((row, name), [0] * 2 * WIDTH)
            for dimension in range(2):
                has, used, others, leaving, promised = flat[WIDTH * dimension :][:WIDTH]
                now, later = has - used - others, has - used - others + leaving - promised
                assert free[dimension, row] == min(now, later)
