#!/usr/bin/env bash
# Kubernetes' own PodGroups: a group cannot name a priority class that never preempts.
#
# A pod names the class and has its preemptionPolicy from it. A PodGroup that does the same is forbidden: the
# default of its own field, PreemptLowerPriority, is written before the admission of priorities looks at the class,
# and that finds the two in contradiction. The message says that the author must not provide a value which the
# author did not provide. Only a group that repeats `preemptionPolicy: Never` is taken.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cluster.sh"
work=$(mktemp -d)
trap 'stop_cluster; rm -rf "$work"' EXIT

GATES=$GATES,PodGroupPreemptionPolicy=true
start_cluster "$work"
ask POST apis/scheduling.k8s.io/v1/priorityclasses '{"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}' >/dev/null

answer() { # PATH BODY: the server's code and message, or the preemptionPolicy of what it created.
  curl -ksS -X POST -H 'Authorization: Bearer word' -H 'Content-Type: application/json' -d "$2" "$ADDRESS/$1" | python3 -c '
import json, sys
found = json.load(sys.stdin)
print(found["spec"]["preemptionPolicy"] if "spec" in found else "%(code)s %(message)s" % found)'
}
group() {
  answer $GROUPS_ "{\"metadata\": {\"name\": \"$1\"}, \"spec\": {\"schedulingPolicy\": {\"basic\": {}}, \"priorityClassName\": \"patient\"$2}}"
}
pod_says=$(answer $PODS '{"metadata": {"name": "pod"}, "spec": {"priorityClassName": "patient", "containers": [{"name": "c", "image": "i"}]}}')
group_says=$(group one "")
repeated=$(group two ', "preemptionPolicy": "Never"')
echo "kube-apiserver $CLUSTER, a class with preemptionPolicy Never"
echo "a pod that names it: $pod_says"
echo "a PodGroup that names it: $group_says"
echo "a PodGroup that repeats its policy: $repeated"
[ "$pod_says" = Never ] && [ "$repeated" = Never ] || { echo "This has changed." && exit 1; }
case "$group_says" in
  *"PreemptLowerPriority) must not be provided in pod group spec"*) ;;
  *) echo "This has changed." && exit 1 ;;
esac
