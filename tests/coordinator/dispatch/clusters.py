"""Clusters for the tests of partition and rebalance: equal nodes, given to shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from coordinator.dispatch.partition import NOBODY, Cut, Offers, Shards, cut


def offers(loads: Sequence[int]) -> Offers:
    """A node of so much of one resource for each row."""
    made = Offers()
    for row, load in enumerate(loads):
        made.put(row, ((0, load),))
    return made


def shards_of(owners: dict[int, int], rows: int) -> Shards:
    found = np.full(rows, NOBODY, dtype=np.int32)
    for row, shard in owners.items():
        found[row] = shard
    return found


def cut_of(
    loads: Sequence[int],
    owners: dict[int, int],
    *,
    shards: int,
    domains: Iterable[list[int]] = (),
) -> Cut:
    made = offers(loads)
    return cut(made, domains, shards=shards, previous=shards_of(owners, len(made.present)))


def owners_of(found: Cut) -> dict[int, int]:
    """Row -> shard."""
    owners = enumerate(found.owners().tolist())
    return {row: shard for row, shard in owners if shard != NOBODY}


def rows(*marked: int, of: int) -> np.typing.NDArray[np.bool_]:
    """A mask with these rows marked."""
    mask = np.zeros(of, dtype=np.bool_)
    mask[list(marked)] = True
    return mask
