"""Schemas of Volcano's kinds: PodGroups, queues and jobs."""

VOLCANO = """
PodGroup (scheduling.volcano.sh/v1beta1) - A gang: pods of which a minimum runs together, or none.
    Pods name it in the annotation scheduling.k8s.io/group-name.
  spec: PodGroupSpec         Its minimum, queue and priority.
  status: PodGroupStatus     Where it is in its life.

PodGroupSpec - Minimum, queue and priority of a gang.
  minMember: integer         How many pods must run together at least.
  minTaskMember: counts      The same for each role: name of the role, number of pods.
  minResources: quantities   What must be free in its queue before it is looked at.
  queue: string              The queue that pays for it; "default" where nothing is said.
  priorityClassName: string  The class that gives its priority.
  networkTopology: NetworkTopology  How close its pods must be.
  subGroupPolicy: []SubGroupPolicy  Parts of it that have a minimum or a closeness of their own.

NetworkTopology - How close pods must be in the network.
  mode: hard|soft            hard: a condition, also where nothing is said; soft: a wish.
  highestTierAllowed: integer  The highest tier of a hyper node that they may share.
  highestTierName: string    The same by the name of the tier.

SubGroupPolicy - Parts of a gang: a part for each value of some labels.
  name: string!              Its name.
  subGroupSize: integer      How many pods of a part must run together; 1 where nothing is said.
  minSubGroups: integer      How many parts must run together.
  labelSelector: LabelSelector  The pods it is about; all where nothing is said.
  matchLabelKeys: []string   Labels whose values tell the parts apart.
  networkTopology: NetworkTopology  How close the pods of a part must be.

PodGroupStatus - Where a gang is in its life.
  phase: Pending|Inqueue|Running|Unknown|Completed  Where it is.
  conditions: []Condition~type  Scheduled or Unschedulable, and why.
  pending: integer           How many of its pods have no node.
  running: integer           How many of its pods run.
  succeeded: integer         How many of its pods ended well.
  failed: integer            How many of its pods failed.
  explanations: []any        Why it waits, for programs.

Queue (scheduling.volcano.sh/v1beta1) - A tenant's share of the cluster.
  spec: QueueSpec            Its share and its bounds.
  status: QueueStatus        What it has, and whether it is open.

QueueSpec - Share and bounds of a queue.
  weight: integer            Its part of the cluster, relative to the other queues; 1 where nothing
    is said.
  parent: string             The queue it is a part of; the root where nothing is said.
  priority: integer          Queues with a higher one go first.
  capability: quantities     The most it may ever use; a resource that is absent has no bound.
  deserved: quantities       What it should have when others want more too.
  guarantee: Guarantee       What nobody else may use.
  reclaimable: boolean       false: what it has beyond its share is not taken back.
  affinity: QueueAffinity    The groups of nodes its tasks go to, or keep away from.
  dequeueStrategy: fifo|traverse  Kept and not looked at.
  extendClusters: []any      Kept and not looked at.
  type: string               Kept and not looked at.

QueueAffinity - Groups of nodes, told by the label volcano.sh/nodegroup-name.
  nodeGroupAffinity: NodeGroups  Those its tasks go to.
  nodeGroupAntiAffinity: NodeGroups  Those they keep away from.

NodeGroups - Names of groups of nodes.
  requiredDuringSchedulingIgnoredDuringExecution: []string  As a condition.
  preferredDuringSchedulingIgnoredDuringExecution: []string  As a wish.

Guarantee - What is set aside for a queue.
  resource: quantities       The amounts.

QueueStatus - What a queue has, and whether it is open.
  state: Open|Closed|Closing|Unknown  A queue that is not open takes no new jobs.
  allocated: quantities      What its jobs hold.
  requested: quantities      What its jobs ask for, with what they hold.
  pending: integer           How many of its gangs wait.
  inqueue: integer           How many of its gangs were let in.
  running: integer           How many of its gangs run.
  completed: integer         How many of its gangs are done.
  unknown: integer           How many of its gangs run below their minimum.
  conditions: []Condition~type  What else is known.

Job (batch.volcano.sh/v1alpha1) - A gang together with the templates of its pods.
  spec: JobSpec              Its roles, minimum, queue and priority.
  status: JobStatus          Where it is in its life.

JobSpec - Roles, minimum, queue and priority of a job.
  minAvailable: integer      How many pods must run together at least; the sum over its roles where
    nothing is said.
  priorityClassName: string  The class that gives its priority.
  queue: string              The queue that pays for it; "default" where nothing is said.
  schedulerName: string      Who schedules it; a name that is not ours: kept and shown, not placed.
  tasks: []JobTask~name!     Its roles.
  networkTopology: NetworkTopology  How close its pods must be.
  policies: []JobPolicy      What is done when pods end, for roles that do not say it themselves.
  maxRetry: integer          With RestartJob and restarts of pods: it fails instead of being begun
    anew as often as this; 3 where nothing is said.
  ttlSecondsAfterFinished: integer  It is deleted so many seconds after its end; never where nothing
    is said.
  minSuccess: integer        The job is complete as soon as so many pods succeeded; the others are
    stopped.
  plugins: any               What Volcano's job controller adds to the pods: env, hcclrank, mpi,
    pytorch, ray, ssh, svc, tensorflow. Kept and shown; of mpi, its master waits for its workers.
  runningEstimate: string    How long it will run, as "1h". Kept and not looked at.
  volumes: []JobVolume       Volumes of every pod.

JobTask - One role of a job: pods that are all alike.
  name: string               Its name.
  replicas: integer          How many pods; 1 where nothing is said.
  minAvailable: integer      How many of them must run together; all where nothing is said.
  template: PodTemplate!     What each of them is.
  policies: []JobPolicy      What is done when pods of this role end.
  dependsOn: JobDependsOn    Roles that must run before this one is created.
  partitionPolicy: JobPartition  Its parts, each with a closeness of its own.
  topologyPolicy: none|best-effort|restricted|single-numa-node  How its pods keep to NUMA domains.
  maxRetry: integer          How often its pods are begun anew. Kept and not looked at.

JobPartition - Parts of a role, all of one size.
  totalPartitions: integer!  How many there are.
  partitionSize: integer!    How many pods each has; both multiplied are the replicas.
  minPartitions: integer     How many must run together.
  networkTopology: NetworkTopology  How close the pods of a part must be.

JobPolicy - What is done when something happened to pods of a job.
  event: string              What happened: PodFailed, PodEvicted, TaskCompleted, Unknown (it runs
    in part), * for any of them, or PodPending with a timeout. TaskFailed is kept, and nothing
    follows.
  events: []string           The same, several of them.
  exitCode: integer          In the place of an event: a pod failed with this code.
  action: string             What is done: RestartJob, AbortJob, CompleteJob or TerminateJob; or
    RestartTask, RestartPod or RestartPartition, while the other pods run on.
  timeout: string            For how long it has to be so before that is done, as "10m".

JobVolume - A volume that every pod of a job gets.
  mountPath: string!         Where it is seen.
  volumeClaimName: string    The claim for it; placing the pods depends on it.
  volumeClaim: any           A claim to be made for it. Kept and shown; nobody makes it here.

JobDependsOn - Roles that must run before another is created.
  name: []string             Names of those roles.
  iteration: any|all         Whether one of them is enough; all where nothing is said.

JobStatus - Where a job is in its life.
  state: any                 phase, reason, and since when.
  minAvailable: integer      How many pods must run together.
  pending: integer           How many of its pods have no node.
  running: integer           How many of its pods run.
  succeeded: integer         How many of its pods ended well.
  failed: integer            How many of its pods failed.
  terminating: integer       How many of its pods are being stopped.
  unknown: integer           How many of its pods nobody knows about.
  retryCount: integer        How often it was begun anew.
  version: integer           Moves when it is begun anew.
  runningDuration: string    How long it has run.
  taskStatusCount: any       The same counts for each role.
  controlledResources: any   What was made for it.
  conditions: []any          The phases it went through, and when.
"""
