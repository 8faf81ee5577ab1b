"""Schemas of the kinds that are stored and shown without effect."""

INERT = """
Namespace (v1) - A name for objects that belong together. It exists as soon as an object names it,
    also without being created.
  spec: any                  Of no meaning here.
  status: any                phase: Active.

ConfigMap (v1) - Texts for programs. Kept and shown; the simulated cluster runs no program.
  data: texts                The texts.
  binaryData: texts          Bytes, in base64.
  immutable: boolean         Kept and not looked at.

Secret (v1) - Its name, labels and type. Its data is dropped before anything is stored.
  type: string               What it is for. Kept and not looked at.
  data: texts                Dropped: never stored and never shown.
  stringData: texts          Dropped: never stored and never shown.
  immutable: boolean         Kept and not looked at.

Service (v1) - A name for pods in the network. Kept and shown; the simulated cluster has no network.
  spec: ServiceSpec          Kept and not looked at.
  status: any                Of no meaning here.

ServiceSpec - Ports and pods of a service. Kept and not looked at.
  type: string               ClusterIP, NodePort, LoadBalancer or ExternalName.
  selector: texts            Labels of its pods.
  ports: []ServicePort~port  Its ports.
  clusterIP: string          None for a headless service.
  clusterIPs: []string       The same for several families of addresses.
  externalIPs: []string      Kept and not looked at.
  externalName: string       Kept and not looked at.
  externalTrafficPolicy: string  Kept and not looked at.
  internalTrafficPolicy: string  Kept and not looked at.
  ipFamilies: []string       Kept and not looked at.
  ipFamilyPolicy: string     Kept and not looked at.
  loadBalancerClass: string  Kept and not looked at.
  loadBalancerIP: string     Kept and not looked at.
  loadBalancerSourceRanges: []string  Kept and not looked at.
  allocateLoadBalancerNodePorts: boolean  Kept and not looked at.
  healthCheckNodePort: integer  Kept and not looked at.
  publishNotReadyAddresses: boolean  Kept and not looked at.
  sessionAffinity: string    Kept and not looked at.
  sessionAffinityConfig: any  Kept and not looked at.
  trafficDistribution: string  Kept and not looked at.

ServicePort - One port of a service.
  port: integer!             Its number.
  name: string               Its name.
  protocol: TCP|UDP|SCTP     TCP where nothing is said.
  targetPort: share          The port of the pods, by number or name.
  nodePort: integer          The port of the nodes.
  appProtocol: string        Kept and not looked at.

ServiceAccount (v1) - A name under which pods run. Kept and shown; rights are those of tokens.
  secrets: []any~name        Kept and not looked at.
  imagePullSecrets: []any    Kept and not looked at.
  automountServiceAccountToken: boolean  Kept and not looked at.
"""
