"""Scenarios of KAI that run all actions, round after round, by name: table -> cases."""

from __future__ import annotations

TABLES: dict[str, tuple[str, ...]] = {
    "actions/integration_tests/allocate/allocateFractionalGpu"
    "::getAllocateFractionalGpuTestsMetadata": (
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
        "try to allocate interactive after train when over-quota - train should be preempted "
        "for interactive to run",
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
    "actions/integration_tests/consolidation/consolidationFractional"
    "::getConsolidateFractionalTestsMetadata": (
        "consolidate job that requested memory and insert another job that required memory",
        "consolidate fractional GPUs and insert a whole train job",
        "can't consolidate fractional GPUs and insert a whole train job",
    ),
    "actions/integration_tests/consolidation/consolidationGang::getConsolidateGangTestsMetadata": (
        "consolidate gang job to be able to allocate pending job",
    ),
    "actions/integration_tests/consolidation/consolidation::getConsolidateTestsMetadata": (
        "1 build job of 1 GPU running on node0, 1 build job of 1 GPU running on node 0, 1 "
        "pending job of 2 GPUs - don't consolidate",
        "topology consolidation with required - simple",
    ),
    "actions/integration_tests/deletion_tests/deletion::getDeletionTestsMetadata": (
        "delete 1 fractional job from node",
        "delete 2 fractional jobs from same GPU",
        "delete 2 fractional jobs from different GPUs",
        "delete 1 fractional job from same GPU as a different running fractional job",
    ),
    "actions/integration_tests/preempt/allocate_preempt"
    "::getAllocateDeallocateSubgroupsTestsMetadata": (
        "Elastic eviction from PodSet above minAvailable, allocate pending in same job",
        "Multiple elastic PodSets in sibling branches - evict from both, allocate pending in "
        "same job",
        "MinSubGroup elastic full preemption - preemptor evicts entire job with minSubGroup=1",
    ),
    "actions/integration_tests/preempt/preemptFractional::getPreemptFractionalTestsMetadata": (
        "Preempt fractional train by fractional interactive GPU job",
    ),
    "actions/integration_tests/preempt/preemptGang::getPreemptGangTestsMetadata": (
        "Classic gang preempt",
        "Some of the pods are running and some are pending- preempt those who are needed in "
        "order to allocate all the pods of gang job",
        "preempt gang job",
    ),
    "actions/integration_tests/preempt/preemptMIG::getMIGTestsMetadata": (
        "Build preempts train",
        "Several jobs with different priorities preempt one",
        "Lower priority job should not preempt",
        "Train job runs in a different queue - should not preempt",
    ),
    "actions/integration_tests/preempt/preempt::getPreemptTestsMetadata": (
        "3 train job running, 1 build job pending - no need to preempt two jobs",
        "1 train job running, 1 build job pending - preempt",
        "3 jobs running for queue0 on 4 GPUs, 1 pending build job for queue0, deserved of "
        "queue1 is 3 - don't preempt",
        "Job with a StuckInReleasing pod is not a preempt victim",
        "Job with a Running pod and a StuckInReleasing pod - preempt evicts the Running sibling",
    ),
    "actions/integration_tests/reclaim/reclaimFractional::getReclaimFractionalTestsMetadata": (
        "reclaim fractional train by whole GPU job",
        "reclaim fractional train by fractional train GPU job - reclaim only part of "
        "fractional jobs",
        "verify whole gpu job is being pipelined to a gpu causing a fractional not be "
        "pipelined to this node (due to a bug we had)",
    ),
    "actions/integration_tests/reclaim/reclaimMIG::getMIGTestsMetadata": (
        "Should not reclaim jobs if job is within fair share",
    ),
    "actions/integration_tests/reclaim/reclaim::getReclaimTestsMetadata": (
        "queue0 is under fair share, queue1 is over fair share - reclaim",
        "2 jobs running for queue0 on 3 GPUs, 1 job running for queue1 on 1 GPU, 1 pending job "
        "for queue1 - reclaim",
        "2 jobs running for queue0 on 3 GPUs, 1 job running for queue1 on 1 GPU, 1 pending job "
        "for queue1, deserved of queue1 is 1 -  don't reclaim",
        "2 jobs running for queue0 on 3 GPUs, 1 job running for queue1 on 1 GPU, 1 pending job "
        "for queue1, deserved of queue1 is 1 -  don't reclaim#2",
        "queue0 is over quota, queue1 is under quota, yet we don't reclaim because allocate "
        "will case a loop (this is a bug in allocate)",
        "2 train job for overquota project 1, 1 job for overquota project with deserved of 0, "
        "1 job recalim from different project - reclaim the job with quota of 0",
        "Reclaim according to the fairness ratio, more GPUs then sum of deserved GPUs",
        "Classic reclaim for train jobs between departments",
        "Classic interactive job reclaim train job from different department",
        "Don't reclaim if department will be overquota",
        "Reclaim from different department and same department",
        "Verify we do only 1 round of GPU allocation for whole GPUs jobs, and give the GPUs to "
        "the one with the bigger remaining - this is a bug we had",
        "Verify we do only 1 round of GPU allocation for whole GPUs jobs - this is a bug we had",
        "[useOnlyFreeResources OFF sanity] q0 allocated only cpu tasks, has 0 deserved GPUs "
        "and useOnlyFreeResources=false (implicit). q1 requires cpu only tasks of same "
        "priority to be allocated and does not reclaim from q0 jobs",
        "[useOnlyFreeResources OFF sanity] q0 allocated CPU and GPU tasks, has 0 deserved GPUs "
        "and useOnlyFreeResources=false (implicit). q1 requires cpu+gpu tasks of same priority "
        "to be allocated and reclaims the resources of the GPU job from q0. the cpu only job "
        "from q1 is scheduled because it is defined before the GPU+CPU task",
        "[useOnlyFreeResources OFF sanity] q0,q1 allocated both gpu and cpu tasks, q1 has 0 "
        "deserved gpus and useOnlyFreeResources=false. when tasks from q2 with higher priority "
        "require cpu + gpu, it reclaims both jobs from q1 despite only 1 of them having "
        "requested GPU because 2 jobs from q2 require GPU and memory limit on node allows 4 "
        "jobs total",
        "q0 allocated CPU and GPU tasks, has 0 deserved GPUs and useOnlyFreeResources=true. q1 "
        "requires cpu+gpu tasks of same priority to be allocated and reclaim from q0 jobs",
        "q0,q1 allocated both gpu and cpu tasks, q1 has 0 deserved resources and "
        "useOnlyFreeResources=true. when tasks from q2 with higher priority require cpu, it "
        "reclaim from q1",
        "q0 allocated only cpu tasks, has 0 deserved resources and useOnlyFreeResources=true. "
        "q1 requires cpu only tasks of higher priority to be allocated and reclaim (memory) "
        "from q1 jobs",
        "q0 allocated only cpu tasks, has 0 deserved resources and useOnlyFreeResources=true. "
        "q1 requires cpu only tasks of higher priority to be allocated and reclaim (CPU) from "
        "q1 jobs",
        "q0 allocated cpu and gpu tasks, has 0 deserved gpus and useOnlyFreeResources=true. q1 "
        "requires cpu only tasks of higher priority to be allocated and does not reclaim q0 "
        "jobs because does not deserve enough GPU",
        "both departments got deserved quota, a queue within d2 is under quota - reclaim from "
        "another queue",
        "both departments are under deserved quota - should not reclaim",
        "Reclaim only over quota task from elastic Job",
        "Reclaim based on releasing resources with consolidation",
        "Reclaim based on releasing and idle resources",
        "Job with a StuckInReleasing pod is not a reclaim victim",
    ),
    "actions/integration_tests/stalegangeviction/stalegangeviction"
    "::getStaleGangEvictionTestsMetadata": (
        "Evict stale gang job of train",
        "Evict stale gang job of build",
    ),
}
