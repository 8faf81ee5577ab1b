"""Schemas of KAI Scheduler's kinds. Where Volcano has a kind of the same name, they begin with
Kai."""

KAI = """
KaiQueue (scheduling.run.ai/v2 Queue) - A tenant's share of the cluster, in KAI's tree of queues.
  spec: KaiQueueSpec!        Its place in the tree and its shares.
  status: KaiQueueStatus     What it has.

KaiQueueSpec - Place in the tree and shares of a queue.
  displayName: string        A name for people.
  parentQueue: string        The queue it is a part of; a root where nothing is said.
  priority: integer          Queues with a higher one go first, and get more of what is left over
    first; 100 where nothing is said.
  resources: KaiQueueResources!  Its shares; what is absent in them is 0.
  preemptMinRuntime: string  How long a job runs before another of the queue may evict it, as "5m".
  reclaimMinRuntime: string  How long a job runs before one of another queue may evict it.

KaiQueueResources - The shares of a queue by resource.
  cpu: KaiQueueResource      Of processors, in thousandths of a core.
  memory: KaiQueueResource   Of memory, in millions of bytes.
  gpu: KaiQueueResource      Of GPUs, in devices.

KaiQueueResource - The share of a queue of one resource.
  quota: number              What it deserves; -1: all there is.
  overQuotaWeight: number    Its part of what is left over, relative to its siblings.
  limit: number              The most it may ever use; -1: no bound.

KaiQueueStatus - What a queue has, with all queues below it.
  conditions: []Condition~type  What else is known.
  childQueues: []string      The queues that name it as their parent.
  allocated: quantities      What its jobs hold.
  allocatedNonPreemptible: quantities  The part of it that jobs hold which are never evicted.
  requested: quantities      What its jobs ask for, with what they hold.

KaiPodGroup (scheduling.run.ai/v2alpha2 PodGroup) - A gang: pods of which a minimum runs together,
    or none. Pods name it in the annotation pod-group-name.
  spec: KaiPodGroupSpec!     Its minimum, sub groups, queue and priority.
  status: KaiPodGroupStatus  Where it is in its life.

KaiPodGroupSpec - Minimum, sub groups, queue and priority of a gang.
  minMember: integer         How many pods must run together at least; 1 where nothing is said.
  minSubGroup: integer       How many of the sub groups at the top must; all where nothing is said.
  subGroups: []KaiSubGroup~name  Its parts. Pods name theirs in the label
    kai.scheduler/subgroup-name.
  queue: string              The queue that pays for it.
  priorityClassName: string  The class that gives its priority; train where nothing is said.
  preemptibility: preemptible|non-preemptible  Whether it may be evicted; a priority below 100 where
    nothing is said.
  topologyConstraint: KaiTopologyConstraint  How close its pods must be.
  preemptionDelay: string    How long it waits before it has others evicted, as "10m".
  stalenessGracePeriod: string  How long it may run below its minimum; negative: for ever.
  schedulingBackoff: integer  1: passed over in this node pool after it failed once; -1: never.
  markUnschedulable: boolean  Whether its pods are told why they wait. Kept and not looked at.
  parallelism: integer       An old field. Kept and not looked at.
  completions: integer       An old field. Kept and not looked at.
  backoffLimit: integer      An old field. Kept and not looked at.

KaiSubGroup - A part of a gang.
  name: string!              Its name.
  parent: string             The part that it belongs to; none where nothing is said.
  minMember: integer         How many of its pods must run together; 0 where nothing is said. Counts
    where nothing is below it.
  minSubGroup: integer       How many of the parts below it must; all where nothing is said.
  topologyConstraint: KaiTopologyConstraint  How close its pods must be.

KaiTopologyConstraint - How close pods must be, by the levels of a topology.
  topology: string           The name of the Topology.
  requiredTopologyLevel: string  They share a domain of this level, as a condition.
  preferredTopologyLevel: string  The same as a wish.

KaiPodGroupStatus - Where a gang is in its life.
  phase: string              Where it is.
  conditions: []Condition~type  What is known.
  running: integer           How many of its pods run.
  succeeded: integer         How many of its pods ended well.
  failed: integer            How many of its pods failed.
  pending: integer           How many of its pods have no node.
  resourcesStatus: any       What it holds and asks for.
  schedulingConditions: []any  Why it could not be placed, and in which node pool, as KAI says it.
  explanations: []any        Why it waits, with amounts.

KaiTopology (kai.scheduler/v1alpha1 Topology) - Levels of closeness in the cluster, by labels of
    nodes.
  spec: KaiTopologySpec!     Its levels.
  status: any                Kept and not looked at.

KaiTopologySpec - The levels of a topology.
  levels: []KaiTopologyLevel!  From the widest to the narrowest.

KaiTopologyLevel - One level of a topology: nodes with the same value of a label are together.
  nodeLabel: string!         The label.
  alias: string              Another name of the level.
"""
