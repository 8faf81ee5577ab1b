#!/usr/bin/env bash
# Kubernetes' own PodGroups: a pod that failed is not replaced once others of its gang have succeeded.
#
# `minCount` is the number of pods that have to start together. kube-scheduler counts the pods that wait or
# run, and none that have ended. When one of two pods of a gang has succeeded and the other one fails, the pod that
# a controller makes in its place is one of two and waits for a second one, which nobody will ever make.
# The node is empty, the pod has no condition that says why, and the group is True, `Scheduled`. With a
# `minCount` of 1 the pod starts at once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cluster.sh"
work=$(mktemp -d)
trap 'stop_cluster; rm -rf "$work"' EXIT

start_cluster "$work"
group_of gang '{"gang": {"minCount": 2}}'
pod first gang
pod second gang
sleep 5
seen="at first: first $(state first), second $(state second)"
ended first Succeeded
ended second Failed
pod again gang
sleep 20
seen+="
after 20 s: again $(state again)"
ask PATCH $GROUPS_/gang '{"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}' merge-patch+json >/dev/null
sleep 5
seen+="
with minCount 1: again $(state again)"
echo "kube-scheduler $CLUSTER:"
echo "$seen"
[ "$seen" = "at first: first on node, second on node
after 20 s: again waits, and nothing says why
with minCount 1: again on node" ] || { echo "This has changed." && exit 1; }
