"""The scenarios of KAI that come out as expected, named one by one: table -> cases.

The others are in ``docs/kai-scenarios.md``; a case that is in neither is an error.
"""

from __future__ import annotations

TABLES: dict[str, tuple[str, ...]] = {
    "actions/allocate/allocateElastic::getElasticTestsMetadata": (
        "Allocate elastic job - full allocate",
        "Allocate elastic job - partial allocate - some pods already running",
        "Allocate 2 elastic jobs - both partial allocate",
    ),
    "actions/allocate/allocateFractionalGpu::getFractionalGPUTestsMetadata": (
        "allocate job with multiple pods but does not allow it because department to go over "
        "allowance",
        "1 shared gpu job running, 1 pending interactive shared gpu job, allocate to same "
        "gpu - even if multiple nodes, to check gpusharingorder plugin",
        "1 whole gpu job running, 1 pending interactive shared gpu job - allocate",
        "1 shared gpu interactive job running, 1 pending whole gpu job - allocate",
        "1 interactive shared gpu job running, 4 pending interactive shared gpus pending - "
        "allocate 3 of the shared GPUs jobs",
        "Verify allocated fractional GPU jobs are counted in the overall number of GPUs the "
        "default department will have",
        "Allow allocation of fractional training when over quota with fractional jobs",
        "Spread across nodes, when 1 node has shared GPU",
        "Pack jobs on nodes",
        "Pack jobs on GPUs",
        "Spread jobs across GPUs",
        "Spread jobs across free GPUs",
        "Pack nodes, spread GPUs",
        "Spread nodes, pack GPUs",
    ),
    "actions/allocate/allocateGang::getGangTestsMetadata": (
        "Allocate build gang job",
        "Allocate build gang job on 2 nodes",
        "Don't allocate gang interactive job if it will go over quota",
        "Pipeline if resource aren't currently allocatable",
    ),
    "actions/allocate/allocateGpuMemory::getMemoryGPUTestsMetadata": (
        "Basic request gpu by memory when cluster is empty",
        "2-device GPU memory job blocked by non-preemptible quota",
    ),
    "actions/allocate/allocateMIG::getMIGTestsMetadata": (
        "MIG job requesting unavailable MIG device",
        "MIG job requesting single MIG device",
        "MIG job requesting MIG device on node with no available MIG devices",
        "MIG job requesting MIG device on node with Legacy MIG jobs",
    ),
    "actions/allocate/allocateTopology::getTopologyTestsMetadata": (
        "Required topology level - schedule all tasks on the same rack",
        "Required topology level - could not schedule on first domain due to affinity, goes "
        "to next",
        "Required topology at multiple subgroup hierarchy levels - subgroup on the same rack "
        "and workload in the same zone",
        "Required topology at multiple subgroup hierarchy levels - rack, spine and zone",
        "Required topology constraint - prefer packed domain",
        "Preferred topology at multiple subgroup hierarchy levels - rack and zone",
        "Combined preferred and required topology constraints - preferred level respected "
        "when possible",
        "Elastic subgroups with required topology constraints",
        "Hierarchical Preferred Topology - PodGroup prefers Spine, SubGroups has no "
        "preference - should allocate on closest Spine nodes",
        "Bin Packing - Pack Top-Most domain first",
    ),
    "actions/allocate/allocate_stuck_in_releasing::TestHandleAllocationStuckInReleasing": (
        "Releasing victim allows pipelining of pending pod",
    ),
    "actions/allocate/allocate_subgroups::getAllocationSubGroupsTestsMetadata": (
        "Allocate job with SubGroups - partial allocation",
        "Allocate job with tree SubGroups and MinSubGroups - unsatisfied group gets priority",
        "Allocate multiple jobs with SubGroups",
        "Allocate job with minSubGroup - elastic phase allocates one extra member",
    ),
    "actions/allocate/allocate::getTestsMetadata": (
        "1 job running on node0, 3 pending jobs - allocate them according to their order",
        "Both queues has the same share, give the one with smaller job - allocate jobs queue1",
        "Both queues has exactly the same share - give priority to the created 1st (queue0)",
        "No jobs",
        "2 running jobs and 1 pending, allocate preemptible interactive with over quota",
        "1 running jobs and 1 build pending, allocate build interactive with over quota",
        "Do not allocate regular GPU task on dynamic MIG node",
        "Allocate task according to nodepack - to the node with the least free GPUs",
        "Allocate task according to nodespread - to the node with the most free GPUs",
        "Allocate inference before build",
        "Allocate inference before train",
        "Attempt to allocate inference over quota",
        "DRF - over quota",
    ),
    "actions/allocate/interpod_affinity::getPodAffinityTestsMetadata": (
        "Pod anti affinity scheduling",
        "Pod affinity and anti-affinity scheduling makes job stay pending",
        "Pod affinity condition makes job stay pending",
    ),
    "actions/integration_tests/allocate/allocateFractionalGpu::"
    "getAllocateFractionalGpuTestsMetadata": (
        "1 shared gpu job running, 1 pending interactive shared gpu job - allocate to new gpu",
        "1 interactive shared gpu job running, 4 pending interactive shared gpus pending - "
        "allocate 3 of the shared GPUs jobs",
        "Allow allocation of fractional training when over quota with fractional jobs",
        "Allow allocation of fractional training when over quota with fractional jobs#2",
        "Basic request gpu by memory when cluster is empty",
        "test gpuSharingOrder - one node empty and one node with already running frac job - "
        "allocate to the node with already running job",
    ),
    "actions/integration_tests/allocate/allocateMIG::getMIGTestsMetadata": (
        "MIG job requesting single MIG device",
        "Pending legacy MIG job",
        "MIG job with multiple tasks requesting MIG device",
    ),
    "actions/integration_tests/allocate/allocate::getAllocateTestsMetadata": (
        "allocate job but does not allow to department to go over allowance",
        "allocate pending jobs, allow over quota for train jobs (with interactive jobs)",
        "1 build job pending for each queue with different share - allocate the second",
        "Over provisioning with over quota, many queues to few GPUs - verify queue share is "
        "updated during the same allocation round",
        "Allocate Departments with smaller ratio 1st",
        "Don't allow allocation of interactive jobs above the department's deserved GPUs",
        "try to allocate train after interactive when over-quota - train should not run",
        "don't allow job over QUEUE deserved CPU",
        "single level queue hierarchy - allocate job",
        "three level queue hierarchy - allocate jobs across teams",
        "four level queue hierarchy - allocate job at deepest level",
    ),
    "actions/integration_tests/allocate/allocate_topology::getTopologyAllocateTestsMetadata": (
        "Topology packing - prefer domains with existing allocations",
        "Topology constraint - job cannot fit in single domain, stays pending",
        "Three-level topology - allocate with required and preferred constraints",
        "Preferred topology only - still allocates when preferred level cannot be satisfied",
        "Topology with CPU constraints - allocate within topology domain respecting CPU limits",
        "Topology constraint failure - sufficient cluster resources but fragmented across domains",
    ),
    "actions/integration_tests/consolidation/consolidationFractional::"
    "getConsolidateFractionalTestsMetadata": (
        "can't consolidate fractional GPUs and insert a whole train job",
    ),
    "actions/integration_tests/consolidation/consolidation::getConsolidateTestsMetadata": (
        "1 build job of 1 GPU running on node0, 1 build job of 1 GPU running on node 0, 1 "
        "pending job of 2 GPUs - don't consolidate",
    ),
    "actions/integration_tests/deletion_tests/deletion::getDeletionTestsMetadata": (
        "delete 1 fractional job from node",
        "delete 2 fractional jobs from same GPU",
        "delete 2 fractional jobs from different GPUs",
        "delete 1 fractional job from same GPU as a different running fractional job",
    ),
    "actions/integration_tests/preempt/preemptMIG::getMIGTestsMetadata": (
        "Lower priority job should not preempt",
        "Train job runs in a different queue - should not preempt",
    ),
    "actions/integration_tests/preempt/preempt::getPreemptTestsMetadata": (
        "3 jobs running for queue0 on 4 GPUs, 1 pending build job for queue0, deserved of "
        "queue1 is 3 - don't preempt",
        "Job with a StuckInReleasing pod is not a preempt victim",
    ),
    "actions/integration_tests/reclaim/reclaimFractional::getReclaimFractionalTestsMetadata": (
        "verify whole gpu job is being pipelined to a gpu causing a fractional not be "
        "pipelined to this node (due to a bug we had)",
    ),
    "actions/integration_tests/reclaim/reclaimMIG::getMIGTestsMetadata": (
        "Should not reclaim jobs if job is within fair share",
    ),
    "actions/integration_tests/reclaim/reclaim::getReclaimTestsMetadata": (
        "2 jobs running for queue0 on 3 GPUs, 1 job running for queue1 on 1 GPU, 1 pending "
        "job for queue1, deserved of queue1 is 1 -  don't reclaim",
        "2 jobs running for queue0 on 3 GPUs, 1 job running for queue1 on 1 GPU, 1 pending "
        "job for queue1, deserved of queue1 is 1 -  don't reclaim#2",
        "queue0 is over quota, queue1 is under quota, yet we don't reclaim because allocate "
        "will case a loop (this is a bug in allocate)",
        "Don't reclaim if department will be overquota",
        "Verify we do only 1 round of GPU allocation for whole GPUs jobs - this is a bug we had",
        "[useOnlyFreeResources OFF sanity] q0 allocated only cpu tasks, has 0 deserved GPUs "
        "and useOnlyFreeResources=false (implicit). q1 requires cpu only tasks of same "
        "priority to be allocated and does not reclaim from q0 jobs",
        "q0 allocated only cpu tasks, has 0 deserved resources and "
        "useOnlyFreeResources=true. q1 requires cpu only tasks of higher priority to be "
        "allocated and reclaim (CPU) from q1 jobs",
        "q0 allocated cpu and gpu tasks, has 0 deserved gpus and useOnlyFreeResources=true. "
        "q1 requires cpu only tasks of higher priority to be allocated and does not reclaim "
        "q0 jobs because does not deserve enough GPU",
        "both departments are under deserved quota - should not reclaim",
        "Job with a StuckInReleasing pod is not a reclaim victim",
    ),
}

NAMES = [f"{table}::{case}" for table, cases in TABLES.items() for case in cases]
