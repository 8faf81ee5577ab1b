"""Schemas of pods and their parts."""

PODS = """
Pod (v1) - A task: containers that run on one node together.
  metadata: ObjectMeta       Its name, labels and annotations.
  spec: PodSpec              What it needs, and where it may run.
  status: PodStatus          What became of it.

PodSpec - What a pod needs, and where it may run. What is not about placement is kept as it was sent
    and not looked at.
  affinity: Affinity         Conditions on the nodes it may run on.
  containers: []Container~name!  Its containers; what they request adds up.
  hostNetwork: boolean       Use the node's network: every port is then a port of the node.
  initContainers: []Container~name  Containers that run before the others, one after another; their
    largest request counts. One with restartPolicy Always stays, and adds up.
  nodeName: string           The node it runs on. Set when it is bound.
  nodeSelector: texts        Labels that its node must have.
  overhead: quantities       What running it costs beside its containers; counted with them.
  priority: integer          Its priority as a number; usually taken from its class.
  priorityClassName: string  The class that gives its priority.
  resourceClaims: []PodClaim~name  Devices it needs, by claims for them.
  resources: Resources       What the pod needs as a whole: cpu, memory and hugepages. Counted in
    place of its containers' sum.
  schedulingGroup: SchedulingGroup  The group of Kubernetes' own that it belongs to.
  schedulingGates: []any~name  While there is one, it waits. They can be taken away, none can be
    added.
  tolerations: []Toleration  Taints of nodes that it does not mind.
  topologySpreadConstraints: []TopologySpread  How evenly pods are spread over domains.
  volumes: []any~name        Volumes: persistentVolumeClaim and ephemeral (in Pods, not in Jobs) are
    looked at; every other kind asks for nothing of the placement, as with Volcano's and KAI's
    schedulers.
  activeDeadlineSeconds: integer  How long it may run. Kept and not looked at.
  automountServiceAccountToken: boolean  Kept and not looked at.
  dnsConfig: any             Kept and not looked at.
  dnsPolicy: string          Kept and not looked at.
  enableServiceLinks: boolean  Kept and not looked at.
  ephemeralContainers: []any~name  Containers for looking inside. Kept and not looked at.
  hostAliases: []any~ip      Kept and not looked at.
  hostIPC: boolean           Kept and not looked at.
  hostPID: boolean           Kept and not looked at.
  hostUsers: boolean         Kept and not looked at.
  hostname: string           Kept and not looked at.
  hostnameOverride: string   Kept and not looked at.
  imagePullSecrets: []any~name  Kept and not looked at.
  os: any                    Kept and not looked at.
  preemptionPolicy: PreemptLowerPriority|Never  Whether it may displace others; what its class says
    where nothing is said.
  readinessGates: []any      Kept and not looked at.
  restartPolicy: string      What happens when a container ends. Kept and not looked at.
  runtimeClassName: string   Kept and not looked at.
  schedulerName: string      Who schedules it; a name that is not ours: kept and shown, not placed.
  securityContext: any       Kept and not looked at.
  serviceAccount: string     Kept and not looked at.
  serviceAccountName: string  Kept and not looked at.
  setHostnameAsFQDN: boolean  Kept and not looked at.
  shareProcessNamespace: boolean  Kept and not looked at.
  subdomain: string          Kept and not looked at.
  terminationGracePeriodSeconds: integer  How long its end may take. Kept and not looked at.

SchedulingGroup - The group of Kubernetes' own that a pod belongs to.
  podGroupName: string!      Name of a PodGroup of scheduling.k8s.io in the pod's namespace.

Container - One container of a pod. Only its requests and host ports matter for the placement.
  name: string               Its name, unique in the pod.
  image: string              The image it runs.
  resources: Resources       What it needs.
  ports: []Port~containerPort  The ports it listens on.
  restartPolicy: string      Always makes an init container one that stays.
  args: []string             Arguments of its command.
  command: []string          What it runs instead of the image's own command.
  env: []any~name            Its environment.
  envFrom: []any             Where more of its environment is taken from.
  imagePullPolicy: string    When the image is fetched. Kept and not looked at.
  lifecycle: any             Kept and not looked at.
  livenessProbe: any         Kept and not looked at.
  readinessProbe: any        Kept and not looked at.
  resizePolicy: []any        Kept and not looked at.
  restartPolicyRules: []any  Kept and not looked at.
  securityContext: any       Kept and not looked at.
  startupProbe: any          Kept and not looked at.
  stdin: boolean             Kept and not looked at.
  stdinOnce: boolean         Kept and not looked at.
  terminationMessagePath: string  Kept and not looked at.
  terminationMessagePolicy: string  Kept and not looked at.
  tty: boolean               Kept and not looked at.
  volumeDevices: []any~devicePath  Kept and not looked at.
  volumeMounts: []any~mountPath  Where volumes are seen.
  workingDir: string         Where its command starts.

Resources - What a container needs of its node.
  requests: quantities       Amounts that are set aside for it: cpu, memory, nvidia.com/gpu and any
    other that nodes offer.
  limits: quantities         Amounts it may not exceed. A resource with a limit only requests that.
  claims: []ContainerClaim~name  Which of the pod's devices it sees.

ContainerClaim - One claim of the pod that a container sees.
  name: string!              Its name in the pod.
  request: string            Which request of it.

PodClaim - A claim for devices, one of both.
  name: string!              Its name in the pod.
  resourceClaimName: string  The ResourceClaim, shared with whoever names it too.
  resourceClaimTemplateName: string  A ResourceClaimTemplate of which the pod gets its own.

PersistentVolumeClaimSource - A claim for a volume.
  claimName: string!         Its name.
  readOnly: boolean          Kept and not looked at.

Port - One port of a container.
  containerPort: integer     Its number in the container.
  hostPort: integer          The port of the node it takes; one pod of a node can have it.
  hostIP: string             The address of the node. Not looked at: a number is taken once.
  name: string               Its name.
  protocol: TCP|UDP|SCTP     TCP where nothing is said.

Toleration - A taint that a pod does not mind.
  key: string                Key of the taint; empty for all, with operator Exists.
  operator: string           Equal (where nothing is said) or Exists.
  value: string              Value of the taint.
  effect: string             NoSchedule, PreferNoSchedule or NoExecute; empty for all.
  tolerationSeconds: integer  For how long. Kept and not looked at.

Affinity - Conditions on the nodes, and between pods.
  nodeAffinity: NodeAffinity  Conditions on the labels of its node.
  podAffinity: PodAffinity   Beside which pods.
  podAntiAffinity: PodAffinity  Away from which pods.

PodAffinity - Conditions and wishes about the pods around a pod.
  requiredDuringSchedulingIgnoredDuringExecution: []PodAffinityTerm  What must be so.
  preferredDuringSchedulingIgnoredDuringExecution: []WeightedTerm  What is wished.

WeightedTerm - A wish about other pods.
  weight: integer!           From 1 to 100, how much it counts.
  podAffinityTerm: PodAffinityTerm!  The wish.

PodAffinityTerm - Pods, and the domain that is shared with them or not.
  labelSelector: LabelSelector  The pods that are meant.
  matchLabelKeys: []string   Labels of this pod that are added to the selector.
  mismatchLabelKeys: []string  Labels of this pod that those pods have not.
  namespaceSelector: LabelSelector  Their namespaces: {} for all, or kubernetes.io/metadata.name.
  namespaces: []string       Their namespaces by name; that of the pod where nothing is said.
  topologyKey: string!       The label of nodes that makes domains.

NodeAffinity - Conditions and wishes about the node of a pod.
  requiredDuringSchedulingIgnoredDuringExecution: NodeSelector  What its node must satisfy.
  preferredDuringSchedulingIgnoredDuringExecution: []Preference  What is wished of it.

Preference - A wish about the node of a pod.
  weight: integer!           From 1 to 100, how much it counts.
  preference: NodeSelectorTerm!  The wish.

NodeSelector - Terms of which a node must satisfy one.
  nodeSelectorTerms: []NodeSelectorTerm!  The terms.

NodeSelectorTerm - Expressions that a node must satisfy all together.
  matchExpressions: []Requirement  About its labels.
  matchFields: []Requirement  About its name: key metadata.name, one value.

Requirement - One expression about a label or field of a node.
  key: string!               The label or field.
  operator: In|NotIn|Exists|DoesNotExist|Gt|Lt!  How it is compared.
  values: []string           What it is compared with; none for Exists and DoesNotExist.

TopologySpread - How evenly pods are spread over domains.
  labelSelector: LabelSelector  The pods that are counted.
  matchLabelKeys: []string   Labels of this pod that are added to the selector.
  maxSkew: integer!          How far domains may be apart.
  minDomains: integer        How many domains there must be.
  nodeAffinityPolicy: Honor|Ignore  Ignore: nodes it may not use count, too.
  nodeTaintsPolicy: Honor|Ignore  Honor: nodes whose taints it does not tolerate do not count.
  topologyKey: string!       The label that makes domains.
  whenUnsatisfiable: DoNotSchedule|ScheduleAnyway  Whether it is a condition or a wish; a condition
    where nothing is said.

PodTemplate - A pod as a Job makes several of.
  metadata: any              Labels and annotations of the pods.
  spec: PodSpec              What each of them needs.

PodStatus - What became of a pod.
  phase: Pending|Running|Succeeded|Failed|Unknown  Where it is in its life.
  conditions: []Condition~type  PodScheduled: whether it has a node, and why not.
  reason: string             Why it is in this phase, in one word.
  message: string            The same in a sentence.
  startTime: time            When it was started.
  containerStatuses: []any   What became of each container.
  nominatedNodeName: string  The node that is held for it until others have left.
  qosClass: string           Guaranteed, Burstable or BestEffort, from its requests and limits.
"""
