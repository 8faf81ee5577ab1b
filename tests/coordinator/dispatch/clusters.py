"""Clusters for the tests of partition and rebalance: equal nodes, given to shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from coordinator.dispatch.partition import NOBODY, Cut, Offers, Shards, cut


def offers(loads: Sequence[int]) -> Offers:
    """A node of so much of one resource for each row."""
    offer_tree = Offers()
    for row, load in enumerate(loads):
        offer_tree.put(row, ((0, load),))
    return offer_tree


def shards_of(owners: dict[int, int], rows: int) -> Shards:
    result = np.full(rows, NOBODY, dtype=np.int32)
    for row, shard in owners.items():
        result[row] = shard
    return result


def cut_of(
    loads: Sequence[int],
    owners: dict[int, int],
    *,
    shards: int,
    domains: Iterable[list[int]] = (),
) -> Cut:
    offer_tree = offers(loads)
    return cut(
        offer_tree, domains, shards=shards, previous=shards_of(owners, len(offer_tree.present))
    )


def owners_of(cut: Cut) -> dict[int, int]:
    """Row -> shard."""
    owners = enumerate(cut.owners().tolist())
    return {row: shard for row, shard in owners if shard != NOBODY}


def rows(*marked: int, of: int) -> np.typing.NDArray[np.bool_]:
    """A mask with these rows marked."""
    mask = np.zeros(of, dtype=np.bool_)
    mask[list(marked)] = True
    return mask
