#!/usr/bin/env bash
# Kubernetes' own PodGroups: a group that was scheduled has the message that it is unschedulable.
#
# kube-scheduler writes the condition of a group by a patch of what has changed against the group that it has in
# its cache. When a pod of a basic group is placed and another one is not, the next attempt for that one comes
# before the cache has the new condition: it finds the old False, and its patch, which has nothing but a new message,
# falls on the condition that is True by now. `PodGroupInitiallyScheduled` is then True, reason `Scheduled`, message
# "pod group is unschedulable", and stays so. It depends on milliseconds, and is the rule on an idle machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cluster.sh"
work=$(mktemp -d)
trap 'stop_cluster; rm -rf "$work"' EXIT

start_cluster "$work"
contradictions=0
for number in 1 2 3 4; do
  group_of "group-$number" '{"basic": {}}'
  pod "nowhere-$number" "group-$number" '"nodeSelector": {"no": "node"}'
  sleep 4
  pod "fits-$number" "group-$number"
  sleep 6
  said=$(ask GET "$GROUPS_/group-$number" | python3 -c '
import json, sys
(condition,) = json.load(sys.stdin)["status"]["conditions"]
print(condition["status"], condition["reason"], condition["message"], sep="; ")')
  echo "kube-scheduler $CLUSTER, group $number: $said"
  case "$said" in "True; Scheduled; pod group is unschedulable"*) contradictions=$((contradictions + 1)) ;; esac
done
[ "$contradictions" -gt 0 ] || { echo "This has changed." && exit 1; }
