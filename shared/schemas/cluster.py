"""Schemas of cluster-wide kinds (nodes, domains, namespaces, priorities, shards) and of events."""

CLUSTER = """
Node (v1) - A machine that tasks run on.
  metadata: ObjectMeta       Its name and labels.
  spec: NodeSpec             Whether it takes tasks, and which.
  status: NodeStatus         What it offers.

NodeSpec - Whether a node takes tasks, and which.
  taints: []Taint            What keeps tasks away that do not tolerate it.
  unschedulable: boolean     true: it takes nothing new.
  configSource: any          Kept and not looked at.
  externalID: string         Kept and not looked at.
  podCIDR: string            Kept and not looked at.
  podCIDRs: []string~        Kept and not looked at.
  providerID: string         Kept and not looked at.

Taint - Keeps tasks away from a node that do not tolerate it.
  key: string!               Its key.
  value: string              Its value.
  effect: NoSchedule|PreferNoSchedule|NoExecute!  What it does to tasks.
  timeAdded: time            Since when. Kept and not looked at.

NodeStatus - What a node offers.
  allocatable: quantities    What tasks can have: cpu, memory, pods, nvidia.com/gpu and others.
  capacity: quantities       What it has in all; counts where allocatable is absent.
  conditions: []Condition~type  Ready, and what else is known.
  addresses: []any~type      Where it is reached.
  nodeInfo: any              What it is.
  allocated: quantities      What tasks hold of it now. Set by the server.
  phase: string              An old field without a meaning.

Event (v1) - Something that happened to an object. Told on change, and not kept over a restart.
  involvedObject: ObjectReference!  What it happened to.
  reason: string             What happened, in one word.
  message: string            What happened, in a sentence.
  type: Normal|Warning       Whether somebody should look.
  count: integer             How often.
  firstTimestamp: time       When first.
  lastTimestamp: time        When last.
  eventTime: time?           When, more exactly.
  source: any                Who said it.
  reportingComponent: string  Who said it.
  reportingInstance: string  Which of those.
  action: string             What was tried.
  related: any               Another object that has to do with it.
  series: any                How often, and when last.

ObjectReference - The address of an object.
  apiVersion: string         Its group and version.
  kind: string               Its kind.
  namespace: string          Its namespace.
  name: string               Its name.
  uid: string                Which of those that had this name.
  resourceVersion: string    At which version.
  fieldPath: string          Which part of it.

PriorityClass (scheduling.k8s.io/v1) - A name for a priority.
  value: integer!            The priority; higher goes first.
  globalDefault: boolean     true: it counts for what names no class.
  description: string        For whom it is.
  preemptionPolicy: PreemptLowerPriority|Never  Whether it may displace what has a lower one.

PodDisruptionBudget (policy/v1) - How many of some pods must stay, or may be missing: the plugin pdb
    keeps it.
  spec: PodDisruptionBudgetSpec  Which pods, and how many.
  status: any                disruptionsAllowed, where somebody else counts.

PodDisruptionBudgetSpec - Which pods must stay, and how many.
  selector: LabelSelector    The pods it is about.
  minAvailable: share        How many must stay. Not beside maxUnavailable.
  maxUnavailable: share      How many may be missing.
  unhealthyPodEvictionPolicy: IfHealthyBudget|AlwaysAllow  Whether pods that are not ready count.

LabelSelector - Which objects, by their labels. All of it must hold.
  matchLabels: texts         Labels they have.
  matchExpressions: []LabelRequirement  Expressions about their labels.

LabelRequirement - One expression about a label.
  key: string!               The label.
  operator: In|NotIn|Exists|DoesNotExist!  How it is compared.
  values: []string           What it is compared with; none for Exists and DoesNotExist.

HyperNode (topology.volcano.sh/v1alpha1) - A domain of the network: nodes that are close to one
    another, or such domains.
  spec: HyperNodeSpec        Its members.
  status: any                What is known of it.

HyperNodeSpec - The members of a domain.
  tier: integer!             How far apart its members are; 1 is closest.
  tierName: string           A name of the tier, by which gangs can name it.
  members: []HyperNodeMember  Its nodes, or the domains it is made of.

HyperNodeMember - One member of a domain.
  type: Node|HyperNode!      Which of the two.
  selector: MemberSelector!  Which they are.

MemberSelector - Which members, in one of these ways.
  exactMatch: ExactMatch     One, by its whole name.
  regexMatch: RegexMatch     Those whose names fit a pattern.
  labelMatch: LabelSelector  Nodes that have these labels.

ExactMatch - The whole name of a member.
  name: string!              The name.

RegexMatch - A pattern of names.
  pattern: string!           A regular expression.

Shard (quadrant.dev/v1alpha1) - Nodes that one worker is at home in.
  spec: any                  Of no meaning here: shards are made by the server.
  status: ShardStatus        Its nodes and its worker.

ShardStatus - Nodes and worker of a shard.
  nodes: integer             How many nodes are at home here and in use.
  desired: integer           How many nodes are to be at home here.
  giving: integer            How many of its nodes are on their way to another shard.
  taking: integer            How many nodes of others are on their way here.
  up: boolean                Whether its worker is up.
  epoch: string?             The epoch under which its worker may commit; null without a worker.
  pid: integer?              The process of its worker, on its machine; null without a worker.
  refused: string?           Why no worker is used here, of another version; null otherwise.
  outstanding: integer       How many tasks are on their way to its worker.
  waiting: integer           How many turns wait to be sent.
  calls: integer             How many calls to its worker have no answer yet.
  turns: integer             How many turns are open.
  turnLimit: integer         How many turns may be open.
  allocatable: quantities    What its nodes offer together.
  idle: quantities           What of that nobody holds.
"""
