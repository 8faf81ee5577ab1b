#!/usr/bin/env bash
# Kubernetes' own PodGroups: in a basic group one pod with a gate keeps all that come after it waiting.
#
# A `basic` group has no minimum: its pods are scheduled one by one. But the queue of kube-scheduler holds the group,
# and a member that may not enter the queue yet, because of a scheduling gate or of a ResourceClaim that does not
# exist, keeps the group out of it. Pods that came before that one are on their nodes; those that come after it
# wait, on an empty node and with no condition. When the gate goes they start.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cluster.sh"
work=$(mktemp -d)
trap 'stop_cluster; rm -rf "$work"' EXIT

start_cluster "$work"
group_of basic '{"basic": {}}'
pod before basic
sleep 5
pod gated basic '"schedulingGates": [{"name": "example.com/later"}]'
pod after basic
sleep 20
seen="beside a gated pod: before $(state before), after $(state after)"
ask PATCH $PODS/gated '{"spec": {"schedulingGates": null}}' merge-patch+json >/dev/null
sleep 10
seen+="
without the gate: gated $(state gated), after $(state after)"
echo "kube-scheduler $CLUSTER:"
echo "$seen"
[ "$seen" = "beside a gated pod: before on node, after waits, and nothing says why
without the gate: gated on node, after on node" ] || { echo "This has changed." && exit 1; }
