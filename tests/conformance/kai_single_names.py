"""Scenarios of KAI that run one action once, by name: table -> cases."""

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
        "1 shared gpu job running, 1 pending interactive shared gpu job, allocate to same gpu "
        "- even if multiple nodes, to check gpusharingorder plugin",
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
        "Required topology level - could not schedule on first domain due to affinity, goes to "
        "next",
        "Required topology at multiple subgroup hierarchy levels - subgroup on the same rack "
        "and workload in the same zone",
        "Required topology at multiple subgroup hierarchy levels - rack, spine and zone",
        "Required topology constraint - prefer packed domain",
        "Preferred topology at multiple subgroup hierarchy levels - rack and zone",
        "Combined preferred and required topology constraints - preferred level respected when "
        "possible",
        "Elastic subgroups with required topology constraints",
        "Hierarchical Preferred Topology - PodGroup prefers Spine, SubGroups has no preference "
        "- should allocate on closest Spine nodes",
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
    "actions/consolidation/consolidationGpuMemory::getConsolidationGpuMemoryTestsMetadata": (
        "consolidate two memory jobs to free gpu",
        "no consolidation when memory does not fit",
        "consolidate to free gpu for whole job",
    ),
    "actions/consolidation/consolidation_subgroups::getSubGroupsConsolidationTestsMetadata": (
        "job with sub groups consolidates a running job",
        "Job with sub groups consolidates another job up to MinAvailable",
        "job with sub groups cannot consolidate a running job - cannot satisfy sub group gang",
        "job with sub groups consolidated by a pending job - partial eviction",
        "job with sub groups above minAvailable consolidated by a pending job - complete eviction",
    ),
    "actions/consolidation/consolidation::getTestsMetadata": (
        "2 jobs of 1 task running on different GPUs, two pending jobs, only first can be "
        "consolidated",
        "2 jobs of 2 & 1 GPUs running, two pending jobs, only second can be consolidated",
        "2 jobs of 1 task running on different GPUs, 2 pending jobs, only second can be "
        "consolidated",
        "2 jobs of 1 task running on different GPUs, 2 pending jobs with multiple tasks, one "
        "job can partially be allocated",
        "2 jobs of 1 task running on different GPUs, two pending jobs - can't Consolidate",
        "2 jobs of 1 task running on different GPUs, 1 job of 3 gpus is pending - can't "
        "Consolidate",
        "3 jobs are running on different GPUs, 1 job pending - Consolidate and verify not all "
        "preemptors are evicted as well",
        "2 build jobs are running on different GPUs - never consoliate",
        "2 jobs running on different nodes - verify build job allocation isn't handled by "
        "consolidation",
        "2 queues with different share, pending job will attempt to reallocate before the "
        "reallocated jobs, 2 running jobs from queue1, 1 pending job from queue0 - don't "
        "consolidate",
        "2 queues with different share, pending job will attempt to reallocate before the "
        "reallocated jobs - 1 running job from queue0, 2 running jobs from queue1, 1 pending "
        "job from queue0 - consolidate",
        "1 elastic job running on different GPUs, 1 job of 3 gpus is pending - Consolidate and "
        "run the pending job",
        "1 elastic job running on different GPUs, 1 job of 3 gpus is pending - do not "
        "consolidate (not all pods can stay alive)",
        "2 elastic jobs running on different GPUs, 1 job of 3 gpus is pending -  consolidate ",
        "1 jobs of 2 tasks that cannot sit together on the same node",
        "MPI jobs consolidation",
        "Required topology with multiple levels - job pipelined as no available rack can be "
        "found unless consolidate",
    ),
    "actions/preempt/preemptGang::getTestsGangMetadata": (
        "Preempt if all tasks can be allocated",
        "don't preempt if will go over quota",
    ),
    "actions/preempt/preemptGpuMemory::getPreemptGpuMemoryTestsMetadata": (
        "build preempts train based on gpu memory",
        "multi task build preempts across gpus",
        "no preemption on same priority",
    ),
    "actions/preempt/preemptMIG::getMIGTestsMetadata": (
        "Inference preempts train",
        "Several jobs with different priorities preempt one",
        "Train job runs in a different queue - should not preempt",
    ),
    "actions/preempt/preempt_elastic::getElasticTestsMetadata": (
        "Inference job preempts several tasks from elastic train job",
        "Inference job preempts single task from several elastic train jobs",
        "Elastic inference job preempts task from train job in favor of a single task",
    ),
    "actions/preempt/preempt_subgroups::getPreemptSubGroupsTestsMetadata": (
        "Job with sub groups preempts low priority job",
        "Job with sub groups cannot preempts low priority job - cannot satisfy sub group gang",
        "Job with sub groups preempts low priority job - partial allocation of the pending job",
        "Preempt job with sub groups - partial eviction",
    ),
    "actions/preempt/preempt::getTestsMetadata": (
        "1 train job running, 1 build job pending for the same queue - preempt",
        "pending build job within preemption delay - don't preempt",
        "running job with preemption delay is still evictable as victim - preempt",
        "1 train job running, 1 build job pending for the different queue - don't preempt",
        "1 train requires 1 GPU for queue0, 1 train that requires 2 GPU for queue1, 1 build "
        "job with 2 GPUs pending - preempt",
    ),
    "actions/integration_tests/reclaim/reclaim_cross_hierarchy_root_leaf"
    "::buildCrossHierarchyRootLeafReclaimTopology": (
        "cross-hierarchy reclaim from root leaf victim",
    ),
    "actions/reclaim/reclaimDepartments::getTestsDepartmentsMetadata": (
        "Classic interactive job reclaim train job from different department",
        "Don't reclaim if department will be overquota",
        "Verify reclaim doesn't happen between department by fairness",
        "Reclaim from overquota department with multiple departments",
    ),
    "actions/reclaim/reclaimGang::getTestsGangReclaimMetadata": (
        "Reclaim other job and pipeline all tasks of job",
        "dont reclaim if will go over quota",
    ),
    "actions/reclaim/reclaimGpuMemory::getReclaimGpuMemoryTestsMetadata": (
        "fair share reclaim for pending gpu memory job",
        "reclaim minimal lower priority victims across queues",
        "no reclaim when queue at deserved",
        "reclaim whole gpu for fractional request within fair share",
        "reclaim enabled when min node GPU memory produces fraction within fair share",
    ),
    "actions/reclaim/reclaimMIG::getMIGTestsMetadata": ("Simple reclaim with MIG jobs",),
    "actions/reclaim/reclaim_anchor_victim::TestReclaimAnchorVictim": (
        "reclaimable sibling never offered because lower-priority protected queue is popped first",
    ),
    "actions/reclaim/reclaim_elastic::getTestsElasticMetadata": (
        "Reclaim single task from elastic job",
        "Reclaim several tasks from elastic job",
        "Reclaim only over quota task from elastic Job",
        "Reclaim all tasks from job and a single task from elastic job",
        "Elastic job reclaims another non-elastic job",
        "Elastic job reclaims single task from another elastic job",
        "Don't reclaim elastic job which is in quota",
    ),
    "actions/reclaim/reclaim_sub_group::getReclaimSubGroupsTestsMetadata": (
        "Reclaim resources for job with sub groups - partial allocation of the pending job",
        "Reclaim resources for job with sub groups - partial allocation of the pending job#2",
        "Reclaim resources from job with sub groups - partial eviction",
    ),
    "actions/reclaim/reclaim::getTestsMetadata": (
        "pending job with elapsed preemption delay - reclaim",
        "queue0 is over fair share, queue1 is under fair share - reclaim for job with multiple "
        "tasks",
        "queue0 is over fair share, queue1 is under fair share - reclaim for job with multiple "
        "tasks from job with multiple tasks",
        "2 jobs from queue0 running on node0 - 2 pending jobs from queue1 - reclaim",
        "Don't reclaim when there's fairness between the queues",
        "1 train job of 2 GPUs from queue0 running on node0 with deserved of 1, 2 pending jobs "
        "from queue1 - reclaim",
        "1 train job of 2 GPUs from queue0 running on node0 with deserved of 1, 2 pending jobs "
        "(1 build) from queue1 - reclaim",
        "2 train job of 1 GPUs from queue0 running on node0 with deserved of 1, 1 pending "
        "build job of 2 GPUs from queue1 with deserved of 1 - don't reclaim",
        "2 preemptible interactive are over quota - reclaim",
        "1 interactive job is running with more GPUs than the quota, 1 interactive job form "
        "different project is pending - don't reclaim (never kill interactive jobs)",
        "don't reclaim from job that allocated resources within its' fairShare",
        "queue0 is under deserved quota, queue1 is over deserved quota but not over fair share "
        "- reclaim",
        "queue0 is under deserved quota and submitted multiple jobs, queue1 is over deserved "
        "quota but not over fair share - reclaim single job",
        "Attempt to reclaim from an inference workload",
        "DRF - queue cannot reclaim if one of its resources is over fair share",
        "unlimited GPU quota, first one is already running, should not reclaim",
        "Reclaim based on releasing and idle resources",
        "Reclaim based on releasing and idle resources with fractions",
        "gang job fails to allocate enough pods",
        "queue0 is in deserved share, queue1 is under fair share - do not reclaim - multiple tasks",
    ),
    "actions/stalegangeviction/stalegangeviction::TestStaleGangEviction": (
        "sanity",
        "Don't evict recently stale job",
        "Evict long-ago stale job",
        "Don't evict non-stale job (has enough minAvailable, even though it has stale duration)",
        "Job with sub groups - should not evict",
        "Per-job grace period shorter than global default - evict",
        "Per-job grace period longer than global default - no evict",
        "Zero per-job grace period - immediate evict",
        "Per-job grace period with subgroups - evict only allocated",
        "Gang with a succeeded pod - no evict",
        "Gang with only one pod left running - no evict",
        "Gang with a succeeded pod in one sub group - no evict",
    ),
}
