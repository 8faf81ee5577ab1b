"""The scenarios of Volcano's own test tables, named one by one: table -> cases.

The list is held to the files; a case that is added there and not named here is an error.
"""

from __future__ import annotations

TABLES: dict[str, tuple[str, ...]] = {
    "actions/allocate/allocate::TestAllocate": (
        "prepredicate failed: node selector does not match",
        "prepredicate failed and tasks are not used up, continue on until min member meet",
        "master's min member can not be allocated, break from allocating",
        "one Job with two Pods on one node",
    ),
    "actions/allocate/allocate::TestAllocateWithNetWorkTopologies": (
        "soft network topology constrain, can allocate job when resources are enough",
        "soft network topology constrain and tasks in job rescheduled, can allocate job when "
        "resources are enough",
        "soft network topology constrain and tasks in job rescheduled, can allocate job when "
        "cross highestTierAllowed tier and hyperNodesInfo has three tier",
        "hard network topology constrain, can not allocate job when cross highestTierAllowed tier",
        "hard network topology constrain, can allocate job when multi hyperNodes are available",
        "hard network topology constrain, can allocate job when minavailable < replicas",
        "hard network topology constrain and tasks in job rescheduled, can allocate job when "
        "highestTierAllowed not reached and minavailable = replicas",
        "hard network topology constrain and tasks in job rescheduled, can allocate job when "
        "highestTierAllowed not reached and hyperNodesInfo has three tier",
        "hard network topology constrain and tasks in job rescheduled, can not allocate job "
        "when cross highestTierAllowed tier and hyperNodesInfo has three tier",
        "hard network topology constrain, can allocate job when the tier corresponding to "
        "highestTierName not reached",
        "hard network topology constrain, can allocate job when multi hyperNodes are available#2",
        "hard network topology constrain and task in job rescheduled, can allocate job when "
        "the tier corresponding to highestTierName not reached and hyperNodesInfo has three "
        "tier",
        "hard network topology with highestTierName constrain and tasks in job rescheduled, "
        "can allocate job when here is no corresponding highestTierAllowed for "
        "highestTierName",
    ),
    "actions/allocate/allocate::TestNodeLevelScoreWithNetWorkTopologies": (
        "hard network topology constrain, allocate job to highest score hypeNode with node "
        "level binpack",
    ),
    "actions/allocate/allocate::TestHyperNodeBinpackWithNetWorkTopologies": (
        "hard network topology constrain, allocate task to node under LCAHyperNode",
    ),
    "actions/allocate/allocate::TestFareShareAllocate": (
        "queue's one jobs has no pending tasks, should be put back to queues for next job",
    ),
    "actions/allocate/allocate::TestAllocateWithPVC": (
        "static pv matched but node without enough resource",
        "static pv matched and node with enough resources",
    ),
    "actions/allocate/allocate::TestAllocateWithDRA": ("claim cel runtime errors",),
    "actions/allocate/allocate::TestAllocateWithPartitionPolicyNetworkTopology": (
        "podgroup hard network topology constrain and subGroup soft network topology "
        "constrain and tasks in job rescheduled, can allocate job when resources are enough "
        "and minavailable = replicas",
        "podgroup hard network topology constrain and subGroup soft network topology "
        "constrain and tasks in job rescheduled, can allocate job when cross "
        "highestTierAllowed tier and hyperNodesInfo has three tier",
        "podgroup soft network topology constrain and subGroup hard network topology "
        "constrain, can not allocate job when cross highestTierAllowed tier",
        "podgroup soft network topology constrain and subGroup hard network topology "
        "constrain and tasks in job rescheduled, can allocate job when resources are enough",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain, can allocate job when highestTierAllowed not reached",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain, can allocate job according to the network topology constrain of subGroup "
        "policy",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain, can allocate job when minavailable < replicas",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain and tasks in job rescheduled, two available hyperNodes, can allocate job "
        "to nodes with affinity",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain and tasks in job rescheduled, can allocate job when highestTierAllowed "
        "not reached and minavailable = replicas",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain and tasks in job rescheduled, can allocate job when highestTierAllowed "
        "not reached and hyperNodesInfo has three tier",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain and tasks in job rescheduled, can not allocate job when cross "
        "highestTierAllowed tier",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain, can allocate job according to the network topology constrain of subGroup "
        "policy with minSubGroups",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain with minSubGroups and tasks in job rescheduled, two available hyperNodes, "
        "can allocate job to nodes with affinity",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain with minSubGroups and tasks in job rescheduled, can not allocate job when "
        "hypernode resources are insufficient.",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain with minSubGroups and tasks in job rescheduled, can allocate job when "
        "highestTierAllowed not reached and minAvailable = replicas",
        "podgroup hard network topology constrain and subGroup hard network topology "
        "constrain with minSubGroups and tasks in job rescheduled, can allocate job when "
        "subGroup is rescheduled",
        "rescheduling scenario: pending tasks with different resource requirements",
        "rescheduling scenario: insufficient resources for pending tasks allocation",
        "rescheduling scenario: SubJob rescheduling within tier-2 HyperNode constraint",
    ),
    "actions/allocate/allocate::TestAllocate_FlatPathHonorsAndClearsNomination": (
        "flat path honors and clears NominatedHyperNode",
    ),
    "actions/allocate/allocate_shard::TestAllocateWithShard": (
        "hard sharding mode - allocate to node in shard",
        "soft sharding mode - prefer node in shard",
    ),
    "actions/backfill/backfill_shard::TestBackfillWithShard": (
        "hard sharding mode - backfill to node in shard",
        "soft sharding mode - prefer node in shard",
        "soft sharding mode - identical nodes prefer shard node",
    ),
    "plugins/capacity/capacity::Test_capacityPlugin_OnSessionOpenWithoutHierarchy": (
        "case3: CPU & Memory are overused, scalar resource is not overused, but candidate "
        "pod has not request CPU & Memory, reclaim should happen",
        "case4: Pods are assigned according to the order of Queue Priority in which PGs are placed",
        "case5: Can reclaim from other queues when allocated + req <= deserved on one dimension",
        "case6: Can not reclaim from other queues when allocated + req > deserved",
        "case7: allocated does not contain scalar dimension (GPU), deserved does; should not "
        "reclaim",
        "case8: reclaimer dimensions are considered properly while evicting reclaimees",
        "case10: PreemptiveFn respects capability — no reclaim when futureUsed would exceed "
        "capability",
    ),
    "plugins/capacity/capacity::TestEnqueueAndAllocatable": (
        "case0: memory exceed derserved, job only request cpu can be enqueued and allocated",
        "case4: queue with non-open state, can not enqueue",
    ),
    "plugins/capacity/capacity::Test_capacityPlugin_OnSessionOpenWithHierarchy": (
        "case1: Pod not allocatable when queue is not leaf queue",
        "case2: Pod allocatable when queue has not exceed capability",
        "case3: Can reclaim from other queues when allocated < deserved",
        "case6: podgroup can't be enqueued when any ancestor queue's capability is not enough",
        "case8: When the queue's deserved value has a scalar resource set, the check can pass",
        "case9: When some scalar resources are 0 in deserved, the check can still pass",
    ),
    "plugins/capacity/capacity::Test_capacityPlugin_AncestorReclaimScenarios": (
        "case1: Can reclaim based on parent deserved when ancestorReclaimLevel is 1",
        "case2: Cross-parent reclaim pipelines project1 pending job when project2 child and "
        "parent are both over deserved",
        "case3: Cross-parent reclaim can evict sibling-queue victim first",
        "case5: level 0 allows reclaim based on leaf-level deserved checks",
        "case7: level 2 blocks reclaim when grandparent-level check fails",
        "case9: level 2 blocks reclaim when leaf deserved is unset and queues share grandparent",
        "case10: level 2 blocks reclaim in unbalanced shared-grandparent tree when leaf "
        "deserved is unset",
        "case11: unbalanced level2 blocks reclaim when depth-2 ancestor is not over deserved",
    ),
    "plugins/capacity/capacity::Test_buildHierarchicalQueueAttrs_nilSafety": (
        "no-panic when root queue is absent (empty ssn.Queues)",
        "no-panic when job references a deleted queue",
    ),
    "plugins/capacity/capacity::TestCapacityPluginDRA": (
        "Case 1: DRA Request within quota",
        "Case 2: DRA Request exceeds quota",
        "Case 3: Multiple Device Classes and Mixed Success/Failure",
        "Case 5: Job Enqueue DRA Check rejects oversize job",
    ),
    "actions/enqueue/enqueue::TestEnqueue": (
        "when podgroup status is inqueue",
        "when podgroup status is pending",
        "when podgroup status is running",
        "pggroup cannot enqueue because the specified queue is c1, but there is only c2",
    ),
    "plugins/nodeorder/nodeorder::TestNodeOrderPlugin": (
        "leastAllocated strategy",
        "mostAllocated strategy",
        "balanced allocation prefers balanced node",
        "inter-pod affinity prefers node with matching pod",
        "pod topology spread prefers node to reduce skew",
    ),
    "plugins/predicates/predicates::TestEventHandler": ("pod-deallocate",),
    "actions/preempt/preempt::TestPreempt": (
        "do not preempt if job is pipelined",
        "preempt one task of different job to fit both jobs on one node",
        "preempt enough tasks to fit large task of different job",
        "preempt low priority job in same queue",
        "preempt low priority job in same queue: allocatable and has enough resource, don't "
        "preempt",
        "preempt low priority job in same queue but not pod with preemptable=false or higher "
        "priority",
        "unBestEffort high-priority pod preempt BestEffort low-priority pod in same queue",
        "can not preempt resources when task preemption policy is never",
        "only commit evictions on the node where preemption succeeds",
    ),
    "actions/preempt/preempt::TestTopologyAwarePreempt": (
        "do not preempt if job is pipelined",
        "preempt low priority job in same queue",
        "preempt low priority job in same queue: allocatable and has enough resource, don't "
        "preempt",
        "unBestEffort high-priority pod preempt BestEffort low-priority pod in same queue",
        "BestEffort high-priority pod preempt BestEffort low-priority pod in same queue",
        "can not preempt resources when task preemption policy is never",
        "preempt low-priority pod when high-priority pod has PodAntiAffinity conflict",
    ),
    "actions/preempt/preempt_shard::TestPreemptWithShard": (
        "hard sharding mode - preempt from node in shard",
        "soft sharding mode - prefer preempting from node in shard",
    ),
    "plugins/proportion/proportion::TestEnqueueAndAllocable": (
        "case1: cpu exceed derserved, job only request memory can be enqueued and allocated",
        "case3: exceed deserved, can not allocate",
    ),
    "plugins/proportion/proportion::TestAllocate": (
        "case0: Pods are assigned according to the order of Queue Priority in which PGs are placed",
    ),
    "actions/reclaim/reclaim::TestReclaim": (
        "Two Queue with one Queue overusing resource, should reclaim",
        "sort reclaimees when reclaiming from overusing queue",
        "sort reclaimees when reclaiming from overusing queues with different queue priority",
        "can not reclaim resources when task preemption policy is never",
        "can not reclaim resources when queue is not open(proportion plugin)",
        "Node available resources should be included in reclaimed resources",
        "Reclaim succeeds for second task when first task has PreemptionPolicy=Never",
    ),
    "actions/reclaim/reclaim_shard::TestReclaimWithShard": (
        "soft sharding mode - prefer reclaiming from node in shard",
    ),
    "plugins/resource-strategy-fit/resource_strategy_fit::TestAllocate": (
        "GPU MostAllocated",
        "cpu LeastAllocated",
    ),
}
NAMES = [f"{table}::{case}" for table, cases in TABLES.items() for case in cases]
