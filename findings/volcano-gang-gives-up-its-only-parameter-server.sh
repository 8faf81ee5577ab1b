#!/usr/bin/env bash
# Volcano, plugin gang: preemption keeps a job's number of pods, not the number of each of its tasks.
#
# A job of one parameter server and three workers has `minAvailable` 3, of which 1 server and 2 workers:
# it starts only when each task has its own minimum. When a more important pod needs room, the plugin
# counts pods alone: 4 run, 3 are the minimum, so any one of them may go. The server goes, and the three
# workers that are left keep their nodes, although the same plugin would not have started such a gang.
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
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

var large, small = api.BuildResourceList("8", "8Gi"), api.BuildResourceList("4", "4Gi")

func member(task, name, node string, phase v1.PodPhase, size v1.ResourceList) *v1.Pod {
	pod := util.BuildPod("ns", name, node, phase, size, "old", map[string]string{}, map[string]string{})
	pod.Annotations[batch.TaskSpecKey] = task
	return pod
}

func TestFinding(t *testing.T) {
	workers := []*v1.Pod{
		member("worker", "worker-0", "small-0", v1.PodRunning, small),
		member("worker", "worker-1", "small-1", v1.PodRunning, small),
		member("worker", "worker-2", "small-2", v1.PodRunning, small),
	}
	pods := append(workers, member("server", "server-0", "large", v1.PodRunning, large),
		util.BuildPod("ns", "preemptor", "", v1.PodPending, large, "new", map[string]string{}, map[string]string{}))
	fmt.Println("SEEN evicted:", run(preempt.New(), api.Releasing, pods...))
	waiting := []*v1.Pod{}
	for _, pod := range workers {
		waiting = append(waiting, member("worker", pod.Name, "", v1.PodPending, small))
	}
	fmt.Println("SEEN started of three workers without a server:", run(allocate.New(), api.Binding, waiting...))
}

func run(action framework.Action, status api.TaskStatus, pods ...*v1.Pod) []string {
	yes := true
	gangGroup := util.BuildPodGroupWithPrio("old", "ns", "q", 3, map[string]int32{"server": 1, "worker": 2}, v1beta1.PodGroupInqueue, "low")
	world := &uthelper.TestCommonStruct{
		Plugins:  map[string]framework.PluginBuilder{gang.PluginName: gang.New, priority.PluginName: priority.New},
		PriClass: []*schedulingv1.PriorityClass{util.BuildPriorityClass("high", 100), util.BuildPriorityClass("low", 1)},
		PodGroups: []*v1beta1.PodGroup{
			gangGroup, util.BuildPodGroupWithPrio("new", "ns", "q", 1, nil, v1beta1.PodGroupInqueue, "high"),
		},
		Pods:   pods,
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	pod := api.ScalarResource{Name: "pods", Value: "10"}
	world.Nodes = []*v1.Node{util.BuildNode("large", api.BuildResourceList("8", "8Gi", pod), nil)}
	for _, name := range []string{"small-0", "small-1", "small-2"} {
		world.Nodes = append(world.Nodes, util.BuildNode(name, api.BuildResourceList("4", "4Gi", pod), nil))
	}
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{
		{Name: gang.PluginName, EnabledPreemptable: &yes, EnabledJobPipelined: &yes, EnabledJobStarving: &yes, EnabledJobReady: &yes},
		{Name: priority.PluginName, EnabledTaskOrder: &yes, EnabledJobOrder: &yes, EnabledPreemptable: &yes, EnabledJobStarving: &yes},
	}}}, nil)
	defer world.Close()
	world.Run([]framework.Action{action})
	return tasks(session, status)
}
GO
)
echo "Volcano $VOLCANO, a gang of one server and three workers that needs one server and two workers:"
echo "$seen"
[ "$seen" = "SEEN evicted: [server-0]
SEEN started of three workers without a server: []" ] || { echo "This has changed." && exit 1; }
