"""Hard topology spread: domains of a label may differ by at most ``maxSkew`` pods.

Counted are pods of the task's namespace that the constraint selects and that are not leaving. Their
nodes must have the keys of all hard constraints and, depending on each constraint's policies, match
the task's node affinity and have only taints that it tolerates. Skew is measured from the emptiest
of those domains; with fewer domains than ``minDomains`` from 0.
"""

from __future__ import annotations

import numpy as np

from shard_worker.framework.rules import Check, Mask
from shard_worker.kube_scheduler.filters.node_checks import affinity_mask, bearable_mask
from shard_worker.kube_scheduler.filters.pod_index import (
    Counts,
    Neighbours,
    PodQuestion,
    by_domain,
    has_label,
    on_rows,
)
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.selector_index import LabelTerm
from shard_worker.session_model.world import World
from shared.model.constraints import Spread
from shared.model.label_selector import matches
from shared.model.model import TaskClass

MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEW = "node(s) didn't match pod topology spread constraints"


def hard_spreads(cls: TaskClass) -> list[Spread]:
    if cls.constraints is None:
        return []
    return [spread for spread in cls.constraints.spreads if spread.hard]


class TopologySpread:
    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def checks(self, task: TaskInfo, world: World) -> list[Check]:
        spreads = hard_spreads(task.cls)
        if not spreads:
            return []
        labelled = has_label([world.view.label(s.topology_key) for s in spreads], world.size)
        even: Mask = np.ones(world.size, np.bool_)
        for spread in spreads:
            even &= self._even(task, spread, labelled, world)
        return [Check(MISSING, labelled, curable=False), Check(SKEW, even)]

    def _even(self, task: TaskInfo, spread: Spread, labelled: Mask, world: World) -> Mask:
        """Rows where one more pod stays within ``maxSkew``. Rows without the label pass."""
        column = world.view.label(spread.topology_key)
        counted = labelled & included(task.cls, spread, world)
        # Pods on nodes that do not count are left out of their domains, too, as in kube-scheduler.
        pods = self.counts(task, spread) * counted
        per_code = by_domain(column, pods)
        domains = np.unique(column.codes[counted])
        least = 0  # minDomains: a missing domain counts as an empty one
        if len(domains) >= max(spread.min_domains, 1):
            least = int(per_code[domains].min())
        more = matches(spread.selector, dict(task.role.labels))
        passes: Mask = on_rows(column, per_code) + more - least <= spread.max_skew
        # A row without the label is refused by the other check, under its own reason.
        return passes | (column.codes < 0)

    def counts(self, task: TaskInfo, spread: Spread) -> Counts:
        """Number of pods per row that a constraint of this task counts."""
        return self._neighbours.count(spread_question(task, spread))


def spread_question(task: TaskInfo, spread: Spread) -> PodQuestion:
    return PodQuestion((LabelTerm((task.job.job.namespace,), spread.selector),), staying=True)


def included(cls: TaskClass, spread: Spread, world: World) -> Mask:
    """Nodes whose pods and domain count for a constraint, by its two node policies."""
    passes = world.view.exists()
    if spread.honor_affinity:
        passes = passes & affinity_mask(cls, world.view)
    if spread.honor_taints:
        passes = passes & bearable_mask(cls, world.view)
    return passes
