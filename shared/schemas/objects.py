"""Schemas of volumes, devices, quotas and NUMA domains."""

OBJECTS = """
ResourceQuota (v1) - What the jobs of a namespace may use in all.
  spec: ResourceQuotaSpec    The bounds.
  status: any                hard and used, as somebody counted them; looked at before spec.

ResourceQuotaSpec - The bounds of a namespace.
  hard: quantities           The most of each resource; names may begin with requests. or limits.
  scopes: []string           Which pods count. Such a quota is kept and bounds nothing here.
  scopeSelector: any         Which pods count. Such a quota is kept and bounds nothing here.

PersistentVolume (v1) - A volume that pods can claim.
  metadata: ObjectMeta       Its name; its labels tell its zone.
  spec: any                  capacity, storageClassName, accessModes, volumeMode, claimRef,
    nodeAffinity and csi are looked at; the rest is kept.
  status: any                Its phase.

PersistentVolumeClaim (v1) - A pod's claim for a volume.
  spec: PersistentVolumeClaimSpec  What the volume must be.
  status: any                Its phase.

PersistentVolumeClaimSpec - What a claimed volume must be.
  accessModes: []string      How it is used.
  resources: any             requests.storage is the least size.
  selector: LabelSelector    Labels that the volume must have.
  storageClassName: string   The class it is of; "" for none, the default class where nothing is
    said.
  volumeMode: string         Filesystem or Block.
  volumeName: string         The volume that it has, or wants.
  dataSource: any            Kept and not looked at.
  dataSourceRef: any         Kept and not looked at.
  volumeAttributesClassName: string  Kept and not looked at.

StorageClass (storage.k8s.io/v1) - How volumes are made.
  provisioner: string!       Who makes them.
  volumeBindingMode: Immediate|WaitForFirstConsumer  Whether a claim waits for its pod's node.
  allowedTopologies: []TopologySelectorTerm  Where they can be made.
  allowVolumeExpansion: boolean  Kept and not looked at.
  mountOptions: []string     Kept and not looked at.
  parameters: any            Kept and not looked at.
  reclaimPolicy: string      Kept and not looked at.

TopologySelectorTerm - Nodes, by their labels.
  matchLabelExpressions: []TopologySelectorRequirement  All of these must hold.

TopologySelectorRequirement - The values that one label may have.
  key: string!               The label.
  values: []string!          Its values.

VolumeNodeAffinity - The nodes that can use a volume.
  required: NodeSelector     Their labels.

CSINode (storage.k8s.io/v1) - How many volumes a node takes.
  metadata: ObjectMeta       The name of the node.
  spec: CSINodeSpec          The drivers on it.

CSINodeSpec - The drivers of volumes on a node.
  drivers: []CSIDriver~name  The drivers.

CSIDriver - One driver of volumes on a node.
  name: string!              Its name.
  allocatable: any           count: how many of its volumes the node takes; any number without one.
  nodeID: string             What it calls the node. Kept and not looked at.
  topologyKeys: []string     Labels it sets. Kept and not looked at.

ResourceClaim (resource.k8s.io/v1) - A claim for devices.
  spec: ResourceClaimSpec    What is asked for.
  status: any                allocation: what it got; reservedFor: whose it is.

ResourceClaimSpec - What devices are asked for.
  devices: DeviceClaim       The requests, and what their devices must have in common.

DeviceClaim - The devices of a claim.
  requests: []DeviceRequest  What is asked for.
  constraints: []DeviceConstraint  What the devices must have in common.
  config: []any              Kept and not looked at.

DeviceRequest - One request: exactly one kind of device, or the first of several that can be had.
  name: string!              Its name in the claim.
  exactly: ExactDeviceRequest  The devices.
  firstAvailable: []DeviceSubRequest  Kinds of devices, the most wanted first.

ExactDeviceRequest - Devices of one class.
  deviceClassName: string!   The class they are of.
  selectors: []DeviceSelector  What each of them must satisfy.
  allocationMode: ExactCount|All  Whether so many are wanted, or all there are.
  count: integer             How many; 1 where nothing is said.
  adminAccess: boolean       true: also those that others have, to look after them.
  tolerations: []Toleration  Taints of devices that it bears.
  capacity: CapacityRequirements  How much of each, where devices are shared.

DeviceSubRequest - Devices of one class, where others would do as well.
  name: string!              Its name in the request.
  deviceClassName: string!   The class they are of.
  selectors: []DeviceSelector  What each of them must satisfy.
  allocationMode: ExactCount|All  Whether so many are wanted, or all there are.
  count: integer             How many; 1 where nothing is said.
  adminAccess: boolean       true: also those that others have, to look after them.
  tolerations: []Toleration  Taints of devices that it bears.
  capacity: CapacityRequirements  How much of each, where devices are shared.

CapacityRequirements - Parts of shared devices.
  requests: quantities       How much of each capacity.

DeviceSelector - A condition on a device.
  cel: CELDeviceSelector!    The condition.

CELDeviceSelector - A condition in CEL.
  expression: string!        True for the devices that are meant.

DeviceConstraint - What the devices of some requests must have in common, or must not.
  matchAttribute: string     An attribute that is the same in all of them.
  distinctAttribute: string  An attribute that differs between any two.
  requests: []string         The requests; all where none is named.

ResourceClaimTemplate (resource.k8s.io/v1) - Of it a claim is made for each pod that names it.
  spec: ResourceClaimTemplateSpec  The claim.

ResourceClaimTemplateSpec - A claim that is made again and again.
  metadata: any              Labels and annotations of the claims.
  spec: ResourceClaimSpec    What is asked for.

ResourceSlice (resource.k8s.io/v1) - Devices of one pool of a driver.
  spec: ResourceSliceSpec    The devices, and where they are.

ResourceSliceSpec - Devices, and where they are.
  driver: string!            The driver they belong to.
  pool: any                  name, generation and resourceSliceCount.
  nodeName: string           The node that has them.
  allNodes: boolean          true: all nodes can use them.
  nodeSelector: NodeSelector  The nodes that can use them.
  devices: []Device          The devices.
  perDeviceNodeSelection: later
  sharedCounters: later

Device - One device.
  name: string!              Its name in the pool.
  attributes: any            What it is: bool, int, string or version of each.
  capacity: any              What it has: value of each.
  taints: []Taint            What keeps claims away that do not tolerate it.
  allowMultipleAllocations: boolean  Whether claims share it.
  allNodes: later
  bindingConditions: later
  bindingFailureConditions: later
  bindsToNode: later
  consumesCounters: later
  nodeName: later
  nodeSelector: later

DeviceClass (resource.k8s.io/v1) - Devices that claims ask for by one name.
  spec: DeviceClassSpec      Which devices are of it.

DeviceClassSpec - Which devices are of a class.
  selectors: []DeviceSelector  What each of them satisfies.
  extendedResourceName: string  Kept and not looked at.
  config: []any              Kept and not looked at.

DeviceAttribute - One attribute of a device, of one of these kinds.
  bool: boolean              True or false.
  int: integer               A whole number.
  string: string             A text.
  version: string            A semantic version.

Numatopology (nodeinfo.volcano.sh/v1alpha1) - How the processors and memory of a node are grouped.
    An agent on the node tells it.
  metadata: ObjectMeta       The name of the node.
  spec: NumatopologySpec     The groups.

NumatopologySpec - Groups of processors and memory.
  policies: texts            CPUManagerPolicy and TopologyManagerPolicy of the node.
  numares: any               Of each resource a NumaResource.
  cpuDetail: any             Of each processor numa, socket and core.
  resReserved: quantities    What the node keeps for itself.

NumaResource - A resource whose units have numbers.
  capacity: integer          How many there are.
  allocatable: string        The numbers of those that can be had, as 0-3,8.
"""
