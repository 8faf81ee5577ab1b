#!/usr/bin/env bash
# Volcano, plugin pdb: a pod without labels can never be evicted, whether or not there is any budget.
#
# The plugin should take those victims out of a preemption that a PodDisruptionBudget protects. A budget
# selects by labels, so that a pod without labels needs no check; the plugin skips the check, and with it
# the line that keeps the pod among the victims. With the plugin on, the least important pod of a cluster
# is out of every preemptor's reach if it has no labels, as `kubectl create` of a bare Pod makes it. One
# label of any name makes it a victim again. No PodDisruptionBudget exists in this test.
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
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/pdb"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	for _, labels := range []map[string]string{{"app": "x"}, {}} {
		for _, withPlugin := range []bool{false, true} {
			fmt.Printf("SEEN labels %v, plugin pdb %v: evicted %v\n", labels, withPlugin, evicted(labels, withPlugin))
		}
	}
}

// evicted preempts on a full node, whose pod is the less important one of two jobs of a queue.
func evicted(labels map[string]string, withPlugin bool) []string {
	yes := true
	size := api.BuildResourceList("8", "8Gi")
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			gang.PluginName: gang.New, priority.PluginName: priority.New, pdb.PluginName: pdb.New,
		},
		PriClass: []*schedulingv1.PriorityClass{
			util.BuildPriorityClass("high", 100), util.BuildPriorityClass("low", 1),
		},
		PodGroups: []*v1beta1.PodGroup{
			util.BuildPodGroupWithPrio("old", "ns", "q", 0, nil, v1beta1.PodGroupInqueue, "low"),
			util.BuildPodGroupWithPrio("new", "ns", "q", 1, nil, v1beta1.PodGroupInqueue, "high"),
		},
		Pods: []*v1.Pod{
			util.BuildPod("ns", "victim", "n1", v1.PodRunning, size, "old", labels, map[string]string{}),
			util.BuildPod("ns", "preemptor", "", v1.PodPending, size, "new", map[string]string{}, map[string]string{}),
		},
		Nodes:  []*v1.Node{node("n1", nil)},
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	plugins := []conf.PluginOption{
		{Name: gang.PluginName, EnabledPreemptable: &yes, EnabledJobPipelined: &yes, EnabledJobStarving: &yes},
		{Name: priority.PluginName, EnabledTaskOrder: &yes, EnabledJobOrder: &yes, EnabledPreemptable: &yes, EnabledJobStarving: &yes},
	}
	if withPlugin {
		plugins = append(plugins, conf.PluginOption{Name: pdb.PluginName, EnabledPreemptable: &yes})
	}
	session := world.RegisterSession([]conf.Tier{{Plugins: plugins}}, nil)
	defer world.Close()
	world.Run([]framework.Action{preempt.New()})
	return tasks(session, api.Releasing)
}
GO
)
echo "Volcano $VOLCANO, a more important pod needs the node of a less important one:"
echo "$seen"
[ "$seen" = "SEEN labels map[app:x], plugin pdb false: evicted [victim]
SEEN labels map[app:x], plugin pdb true: evicted [victim]
SEEN labels map[], plugin pdb false: evicted [victim]
SEEN labels map[], plugin pdb true: evicted []" ] || { echo "This has changed." && exit 1; }
