"""Which jobs a consolidation may move, where the policy bounds their number: those on the emptiest
nodes, because the fewest of them have to move before a node is empty.

KAI takes whichever its map gives first, others in each cycle. To take the last in its order always
would be to take what earlier searches have packed together: no few of those leave a node empty.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.search.job_lines import JobLines, last_first
from shard_worker.dialects.kai.search.node_capacities import gpus_in_use
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
from shard_worker.dialects.kai.search.unread_jobs import VictimMask
from shard_worker.dialects.kai.session import KaiSession


def of_emptiest_nodes(
    ssn: KaiSession,
    running: JobLines,
    most: int,
    may_be: VictimMask,
    accepts: Callable[[KaiJob], bool],
) -> frozenset[int]:
    """The numbers of at most so many jobs: those whose fullest node has the fewest GPUs in use, of
    equals those that would go first."""
    jids, in_use = running.most_of(gpus_in_use(ssn.world), may_be, accepts)
    if not most:
        return frozenset()
    if len(jids) <= most:
        return frozenset(jids.tolist())
    limit = np.partition(in_use, most - 1)[most - 1]
    emptier, equal = jids[in_use < limit], jids[in_use == limit]

    def is_equal(columns: ResidentColumns) -> Mask:
        return may_be(columns) & np.isin(columns.jid, equal)

    among = frozenset(equal.tolist())
    last = (jid for _, jid, _ in last_first(running.victims(is_equal, decided=True)))
    ties = islice((jid for jid in last if jid in among), most - len(emptier))
    return frozenset([*emptier.tolist(), *ties])
