#!/usr/bin/env bash
# Volcano, action reclaim: a pod of another queue is evicted for a pod that fits beside it.
#
# Reclaim frees what a queue is owed and others use. On the first node where the waiting pod would fit
# once all victims are gone, it evicts one, and looks only then whether there is enough. That nothing
# needed to go is not asked, neither of this node nor of others. Several pages and comments of the plugins
# have reclaim before allocate in the list of actions, and then every start in a queue below its share evicts
# somebody who has borrowed, on a cluster that is nearly empty.
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
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("allocate, reclaim", allocate.New(), reclaim.New())
	show("reclaim, allocate", reclaim.New(), allocate.New())
}

func member(name, group, node string, phase v1.PodPhase) *v1.Pod {
	return util.BuildPod("ns", name, node, phase, api.BuildResourceList("1", "1Gi"), group,
		map[string]string{v1beta1.PodPreemptable: "true"}, map[string]string{})
}

func option(name string) conf.PluginOption {
	option := conf.PluginOption{Name: name}
	plugins.ApplyPluginConfDefaults(&option)
	return option
}

// show is a node of 8 CPUs with two pods of q1, which deserves one CPU, and a waiting one of q2.
func show(title string, actions ...framework.Action) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			gang.PluginName: gang.New, capacity.PluginName: capacity.New,
		},
		PodGroups: []*v1beta1.PodGroup{
			util.BuildPodGroup("old", "ns", "q1", 1, nil, v1beta1.PodGroupRunning),
			util.BuildPodGroup("new", "ns", "q2", 1, nil, v1beta1.PodGroupInqueue),
		},
		Nodes: []*v1.Node{node("node", nil)},
		Pods: []*v1.Pod{
			member("old-0", "old", "node", v1.PodRunning), member("old-1", "old", "node", v1.PodRunning),
			member("new-0", "new", "", v1.PodPending),
		},
		Queues: []*v1beta1.Queue{
			util.BuildQueueWithResourcesQuantity("q1", api.BuildResourceList("1", "1Gi"), nil),
			util.BuildQueueWithResourcesQuantity("q2", api.BuildResourceList("4", "4Gi"), nil),
		},
	}
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{option("gang"), option("capacity")}}}, nil)
	defer world.Close()
	world.Run(actions)
	fmt.Printf("SEEN %s: evicted %d, bound %v, promised a node %v\n", title,
		len(tasks(session, api.Releasing)), tasks(session, api.Binding), tasks(session, api.Pipelined))
}
GO
)
echo "Volcano $VOLCANO, one CPU asked for on a node with 6 of 8 CPUs free, by the order of actions:"
echo "$seen"
[ "$seen" = "SEEN allocate, reclaim: evicted 0, bound [new-0], promised a node []
SEEN reclaim, allocate: evicted 1, bound [], promised a node [new-0]" ] || { echo "This has changed." && exit 1; }
