#!/usr/bin/env bash
# Volcano, plugin usage: a threshold of 80.5 percent closes every node that does anything.
#
# `thresholds: {cpu: 80.5}` should keep pods from nodes whose processors are busier than that. The plugin
# takes whole numbers alone; anything else becomes 0, also where the default is 80. A node at 12 percent
# then "exceeds the threshold", so that nothing is scheduled on a cluster with metrics. Other numbers of a
# policy are read as fractions, and one that cannot be read keeps its default.
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

	"gopkg.in/yaml.v2"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics/source"
	"volcano.sh/volcano/pkg/scheduler/plugins/usage"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	for _, thresholds := range []string{"{cpu: 80}", "{cpu: 80.5}"} {
		policy := conf.SchedulerConfiguration{}
		file := "tiers: [{plugins: [{name: usage, enablePredicate: true, arguments: {thresholds: " + thresholds + "}}]}]"
		if err := yaml.Unmarshal([]byte(file), &policy); err != nil {
			t.Fatal(err)
		}
		world := &uthelper.TestCommonStruct{
			Plugins:   map[string]framework.PluginBuilder{usage.PluginName: usage.New},
			PodGroups: []*v1beta1.PodGroup{util.BuildPodGroup("job", "ns", "q", 1, nil, v1beta1.PodGroupInqueue)},
			Queues:    []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
			Nodes:     []*v1.Node{node("n1", nil)}, Pods: []*v1.Pod{pod("p")},
		}
		session := world.RegisterSession(policy.Tiers, nil)
		session.Nodes["n1"].ResourceUsage = &api.NodeUsage{MetricsTime: time.Now(),
			CPUUsageAvg: map[string]float64{source.NODE_METRICS_PERIOD: 12},
			MEMUsageAvg: map[string]float64{source.NODE_METRICS_PERIOD: 12},
		}
		for _, task := range session.Jobs["ns/job"].Tasks {
			fmt.Println("SEEN", thresholds, "refused:", session.PredicateFn(task, session.Nodes["n1"]) != nil)
		}
		world.Close()
	}
}
GO
)
echo "Volcano $VOLCANO, a node whose processors are used at 12 percent:"
echo "$seen"
[ "$seen" = "SEEN {cpu: 80} refused: false
SEEN {cpu: 80.5} refused: true" ] || { echo "This has changed." && exit 1; }
