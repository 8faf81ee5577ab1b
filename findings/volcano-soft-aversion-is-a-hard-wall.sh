#!/usr/bin/env bash
# Volcano, plugin nodegroup: a queue that would rather not run in a node group may run nowhere else.
#
# A queue whose only affinity is nodeGroupAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution
# [slow] asks softly to keep off the nodes of group `slow`. The plugin's predicate takes membership in
# any of the queue's lists, the soft aversion among them, as the permission: nodes of group `slow` are
# the only ones that it lets through, and every other group is refused. The pod is bound to `slow`
# although `fast` is empty, and without a `slow` node it is not bound at all.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(volcano_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodegroup"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	queue := util.BuildQueue("q", 1, nil)
	queue.Spec.Affinity = &v1beta1.Affinity{NodeGroupAntiAffinity: &v1beta1.NodeGroupAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []string{"slow"},
	}}
	slow := node("slow-1", map[string]string{nodegroup.NodeGroupNameKey: "slow"})
	fast := node("fast-1", map[string]string{nodegroup.NodeGroupNameKey: "fast"})
	for _, nodes := range [][]*v1.Node{{slow, fast}, {fast}} {
		fmt.Println("SEEN", len(nodes), "nodes:", placed(nodegroup.PluginName, nodegroup.New, nil, queue, nodes, pod("p")))
	}
}
GO
)
echo "Volcano $VOLCANO, a queue that prefers not to use group slow:"
echo "$seen"
[ "$seen" = "SEEN 2 nodes: map[p:slow-1]
SEEN 1 nodes: map[]" ] || { echo "This has changed." && exit 1; }
