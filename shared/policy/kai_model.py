"""Settings of a KAI policy beside actions and plugins: options, depths, budgets and usage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.policy.kai_usage import UsageSettings


@dataclass(frozen=True, slots=True)
class KaiOptions:
    """KAI's command line options that decide something, with its defaults. Times in seconds."""

    scheduler_name: str = "kai-scheduler"
    nodepool_label_key: str = "kai.scheduler/node-pool"
    partition_label_value: str = ""
    restrict_node_scheduling: bool = False
    max_consolidation_preemptees: int = 16
    use_scheduling_signatures: bool = True
    full_hierarchy_fairness: bool = True
    allow_consolidating_reclaim: bool = True
    default_staleness_grace_period: float = 60.0
    stuck_in_releasing_threshold: float = 120.0
    cpu_worker_node_label_key: str = "node-role.kubernetes.io/cpu-worker"
    gpu_worker_node_label_key: str = "node-role.kubernetes.io/gpu-worker"
    mig_worker_node_label_key: str = "node-role.kubernetes.io/mig-enabled"


@dataclass(frozen=True, slots=True)
class SearchBudgets:
    """How long victims are searched for, in seconds; 0 = without a bound."""

    action: float = 300.0
    actions: Mapping[str, float] = field(default_factory=dict)
    """Action -> its own bound, where the file has one."""
    job: float = 240.0
    least_of_a_job: float = 0.0
    generator: float = 120.0
    generators: Mapping[str, float] = field(
        default_factory=lambda: {"NodeLocalGreedy": 30.0, "MultiNodeGang": 120.0}
    )
    scenarios: int = 10_000
    """Scenarios that are simulated for one job at most, whatever the time; 0 = without a bound."""

    def longest(self, action: str) -> float:
        """Seconds that a search by the action may take where it has the action's time to itself;
        infinite where nothing bounds it."""
        of_action = self.actions.get(action, self.action)
        if of_action:
            of_action = max(of_action, self.least_of_a_job)
        return min(of_action or math.inf, self.job or math.inf)


@dataclass(frozen=True, slots=True)
class KaiPolicy:
    """The parts of a KAI policy that Volcano's have no place for."""

    options: KaiOptions = KaiOptions()
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    """Action -> jobs of each leaf queue that are tried in a cycle; absent: all."""
    budgets: SearchBudgets = SearchBudgets()
    usage: UsageSettings | None = None
    """``usageDBConfig``; None: usage of the past does not count."""


def flattens_queues(kai: KaiPolicy | None) -> bool:
    """Whether only leaves of the tree of queues count, below one parent without bounds."""
    return kai is not None and not kai.options.full_hierarchy_fairness


def node_pool_label(kai: KaiPolicy | None) -> str:
    """The label by which objects are in a node pool."""
    return (kai or KaiPolicy()).options.nodepool_label_key
