#!/usr/bin/env bash
# Volcano, plugin rescheduling: to relieve a busy node, it evicts a pod of the same name on an idle one.
#
# The strategy lowNodeUtilization picks pods of the busiest nodes, and then looks for them among the pods
# that Volcano runs by name alone, without the namespace. Pods of StatefulSets have the same names in many
# namespaces. Here `db-0` of namespace a runs on the busy node and belongs to the default scheduler, so
# that Volcano should leave it alone; `db-0` of namespace b runs on the idle node and belongs to a job of
# Volcano's. The second one is evicted, which does not help the busy node, and again after each interval,
# as long as it comes back. With another name it stays.
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
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/shuffle"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/rescheduling"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("db-0")
	show("cache-0")
}

// percent is a map of thresholds as Volcano's reader of the configuration makes it.
func percent(number int) map[interface{}]interface{} {
	return map[interface{}]interface{}{"cpu": number, "memory": number}
}

func runningPod(namespace, name, node, group string) *v1.Pod {
	return util.BuildPod(namespace, name, node, v1.PodRunning, api.BuildResourceList("1", "1Gi"), group, map[string]string{}, map[string]string{})
}

func usage(used float64) *api.NodeUsage {
	average := map[string]float64{"5m": used}
	return &api.NodeUsage{MetricsTime: time.Now(), CPUUsageAvg: average, MEMUsageAvg: average}
}

func show(name string) {
	foreign := runningPod("a", "db-0", "busy", "")
	foreign.Spec.SchedulerName = v1.DefaultSchedulerName
	world := &uthelper.TestCommonStruct{
		Plugins:   map[string]framework.PluginBuilder{rescheduling.PluginName: rescheduling.New},
		PodGroups: []*v1beta1.PodGroup{util.BuildPodGroup("job", "b", "q", 1, nil, v1beta1.PodGroupRunning)},
		Nodes:     []*v1.Node{node("busy", nil), node("idle", nil)},
		Pods:      []*v1.Pod{foreign, runningPod("b", name, "idle", "job")},
		Queues:    []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	time.Sleep(10 * time.Millisecond)
	yes := true
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{{
		Name: rescheduling.PluginName, EnabledVictim: &yes,
		Arguments: framework.Arguments{"interval": "1ms", "strategies": []interface{}{map[interface{}]interface{}{
			"name":   "lowNodeUtilization",
			"params": map[interface{}]interface{}{"thresholds": percent(20), "targetThresholds": percent(50)},
		}}},
	}}}}, nil)
	defer world.Close()
	session.Nodes["busy"].ResourceUsage, session.Nodes["idle"].ResourceUsage = usage(90), usage(5)
	world.Run([]framework.Action{shuffle.New()})
	evicted := []string{}
	for _, job := range session.Jobs {
		for _, task := range job.TaskStatusIndex[api.Releasing] {
			evicted = append(evicted, task.Namespace+"/"+task.Name+" on "+task.NodeName)
		}
	}
	fmt.Printf("SEEN a/db-0 on busy, b/%s on idle; evicted: %v\n", name, evicted)
}
GO
)
echo "Volcano $VOLCANO:"
echo "$seen"
[ "$seen" = "SEEN a/db-0 on busy, b/db-0 on idle; evicted: [b/db-0 on idle]
SEEN a/db-0 on busy, b/cache-0 on idle; evicted: []" ] || { echo "This has changed." && exit 1; }
