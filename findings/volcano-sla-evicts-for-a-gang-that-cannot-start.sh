#!/usr/bin/env bash
# Volcano, plugin sla: a gang that waited too long empties nodes on which it cannot start.
#
# Once `sla-waiting-time` is over, `sla` lets idle room be held for a gang before all of it fits. It does so
# by calling the gang pipelined, and preempt asks the same question to learn whether its victims are of use.
# So a gang of three, on a cluster with room for two, evicts the two pods that run there. In the next round
# the empty room is held for it, so that nothing runs any more. Before the time is over, or without the plugin,
# nobody is evicted.
#
# A node of 8 CPUs with two pods of 4 CPUs of low priority, and a gang of three such pods of high priority;
# and the round after it, with a new pod in the place of those that were evicted.
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
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/plugins/sla"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("1h", "old-0", "old-1")
	show("1m", "old-0", "old-1")
	show("1m")
}

func member(name, group, node string, phase v1.PodPhase, priority int32) *v1.Pod {
	return util.BuildPodWithPriority("ns", name, node, phase, api.BuildResourceList("4", "1Gi"), group,
		map[string]string{v1beta1.PodPreemptable: "true"}, map[string]string{}, &priority)
}

func group(name string, minimum int32, class string, age time.Duration) *v1beta1.PodGroup {
	group := util.BuildPodGroupWithPrio(name, "ns", "q", minimum, nil, v1beta1.PodGroupInqueue, class)
	group.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
	return group
}

// show is one round, while these pods run.
func show(waitingTime string, running ...string) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			priority.PluginName: priority.New, gang.PluginName: gang.New, sla.PluginName: sla.New},
		PriClass:  []*schedulingv1.PriorityClass{util.BuildPriorityClass("low", 1), util.BuildPriorityClass("high", 100)},
		PodGroups: []*v1beta1.PodGroup{group("old", 0, "low", 5*time.Minute), group("gang", 3, "high", 10*time.Minute)},
		Nodes:     []*v1.Node{node("node", nil)},
		Queues:    []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
		Pods: []*v1.Pod{
			member("gang-0", "gang", "", v1.PodPending, 100), member("gang-1", "gang", "", v1.PodPending, 100),
			member("gang-2", "gang", "", v1.PodPending, 100), member("new", "old", "", v1.PodPending, 1),
		},
	}
	for _, name := range running {
		world.Pods = append(world.Pods, member(name, "old", "node", v1.PodRunning, 1))
	}
	tiers := []conf.Tier{}
	for _, tier := range [][]string{{"sla"}, {"priority", "gang"}} {
		options := conf.Tier{}
		for _, name := range tier {
			option := conf.PluginOption{Name: name}
			if name == sla.PluginName {
				option.Arguments = framework.Arguments{"sla-waiting-time": waitingTime}
			}
			plugins.ApplyPluginConfDefaults(&option)
			options.Plugins = append(options.Plugins, option)
		}
		tiers = append(tiers, options)
	}
	session := world.RegisterSession(tiers, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New(), preempt.New()})
	fmt.Printf("SEEN bound of %s, %d running: evicted %d, bound %v, room held or promised for the gang %d\n", waitingTime,
		len(running), len(tasks(session, api.Releasing)), tasks(session, api.Binding),
		len(tasks(session, api.Pipelined))+len(tasks(session, api.Allocated)))
}
GO
)
echo "Volcano $VOLCANO, allocate and preempt, for a gang that has waited for ten minutes:"
echo "$seen"
[ "$seen" = "SEEN bound of 1h, 2 running: evicted 0, bound [], room held or promised for the gang 0
SEEN bound of 1m, 2 running: evicted 2, bound [], room held or promised for the gang 2
SEEN bound of 1m, 0 running: evicted 0, bound [], room held or promised for the gang 2" ] || { echo "This has changed." && exit 1; }
