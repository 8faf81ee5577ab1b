"""Schemas of Kubernetes' own PodGroups. Its kind begins with Native, as others have one of its
name."""

GROUPS = """
NativePodGroup (scheduling.k8s.io/v1beta1 PodGroup) - Pods that are placed together, by Kubernetes'
    own API. Pods name it in spec.schedulingGroup.
  spec: NativePodGroupSpec!  Its policy and priority.
  status: NativePodGroupStatus  Whether it was placed.

NativePodGroupSpec - Policy and priority of a group.
  schedulingPolicy: NativePolicy!  Whether a minimum of its pods starts together.
  disruptionMode: NativeDisruption  Whether its pods leave one by one; single where nothing is said.
  priority: integer          Its priority as a number; taken from its class.
  priorityClassName: string  The class that gives its priority.
  preemptionPolicy: PreemptLowerPriority|Never  Whether it may displace others; what its class says
    where nothing is said.
  schedulingConstraints: NativeConstraints  Where its pods may run.
  workloadRef: NativeWorkloadRef  The Workload that it was made from; one for all groups of a tree.
  parentCompositePodGroupName: string  The CompositePodGroup that it is in.
  resourceClaims: later

NativeWorkloadRef - A template of a Workload.
  workloadName: string       The Workload.
  templateName: string       Its template. Kept and not looked at.

CompositePodGroup (scheduling.k8s.io/v1alpha3) - Groups that are placed together. They name it in
    spec.parentCompositePodGroupName.
  spec: CompositePodGroupSpec!  Its policy and priority.
  status: NativePodGroupStatus  Whether it was placed.

CompositePodGroupSpec - Policy and priority of a tree of groups.
  schedulingPolicy: CompositePolicy!  Whether a minimum of its groups starts together.
  disruptionMode: NativeDisruption  Whether its groups leave one by one; single where nothing is
    said.
  priority: integer          Its priority as a number; taken from its class.
  priorityClassName: string  The class that gives its priority.
  preemptionPolicy: PreemptLowerPriority|Never  Whether it may displace others; what its class says
    where nothing is said.
  schedulingConstraints: NativeConstraints  Where pods of its groups may run.
  workloadRef: NativeWorkloadRef!  The Workload that it was made from; one for all groups of a tree.
  parentCompositePodGroupName: string  The CompositePodGroup that it is in; it is a root without.

CompositePolicy - Whether a minimum of the groups starts together. One of both.
  basic: any                 Each group is placed for itself.
  gang: CompositeGang        A minimum of groups starts together.

CompositeGang - Groups of which a minimum starts together.
  minGroupCount: integer!    That minimum.

Workload (scheduling.k8s.io/v1beta1) - Templates from which a controller makes PodGroups. Kept and
    shown; nothing is decided by it.
  spec: WorkloadSpec!        Its templates.

WorkloadSpec - Templates of groups.
  controllerRef: any         The object that it belongs to. Kept and not looked at.
  podGroupTemplates: []NativeGroupTemplate~name!  The templates, 8 at most.
  compositePodGroupTemplates: later

NativeGroupTemplate - A group as it will be made.
  name: string!              Its name, of which there is one in the Workload.
  schedulingPolicy: NativePolicy!  Whether a minimum of its pods starts together.
  disruptionMode: NativeDisruption  Whether its pods leave one by one; single where nothing is said.
  priority: integer          Its priority as a number; taken from its class.
  priorityClassName: string  The class that gives its priority.
  preemptionPolicy: PreemptLowerPriority|Never  Whether it may displace others; what its class says
    where nothing is said.
  schedulingConstraints: NativeConstraints  Where its pods may run.
  resourceClaims: later

NativePolicy - Whether a minimum of the pods starts together. One of both.
  basic: any                 Each pod is placed for itself.
  gang: NativeGang           A minimum of pods starts together.

NativeGang - Pods of which a minimum starts together.
  minCount: integer!         That minimum.

NativeDisruption - How pods of a group leave when others need their room. One of both.
  single: any                Each for itself.
  all: any                   All together, or none.

NativeConstraints - Where pods of a group may run.
  topology: []NativeTopology  That all of them are close; one at most.

NativeTopology - Pods that are close.
  key: string!               The node label of which all of their nodes have one value.

NativePodGroupStatus - Whether a group was placed.
  conditions: []Condition~type  What is known.
  resourceClaimStatuses: []any~name  Claims that were made for it.
"""
