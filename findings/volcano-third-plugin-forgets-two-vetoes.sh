#!/usr/bin/env bash
# Volcano, preempt: with the plugins of the default configuration, pods of higher priority and whole
# gangs are evicted, although `priority` and `gang` each refuse them.
#
# The plugins of a tier have to agree on a victim. Where the victims of two plugins have none in common,
# the list is empty, which the third plugin takes for "nobody has been asked yet": then its own list alone
# counts. `conformance`, the third one of the default tier, refuses only pods of the system.
#
# A node of 4 CPUs runs a gang of two pods of low priority, which `gang` keeps, and two pods of high
# priority, of which `gang` would give one, and which `priority` keeps. A pod of middle priority that needs
# the whole node evicts all four. With `priority` and `gang` alone it evicts nobody.
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
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/conformance"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func member(name, group, node string, phase v1.PodPhase, cpu string) *v1.Pod {
	return util.BuildPod("ns", name, node, phase, api.BuildResourceList(cpu, "1Gi"), group, map[string]string{}, map[string]string{})
}

func TestFinding(t *testing.T) {
	fmt.Println("SEEN priority, gang:", evicted("priority", "gang"))
	fmt.Println("SEEN priority, gang, conformance:", evicted("priority", "gang", "conformance"))
}

func evicted(names ...string) []string {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			priority.PluginName: priority.New, gang.PluginName: gang.New, conformance.PluginName: conformance.New,
		},
		PriClass: []*schedulingv1.PriorityClass{
			util.BuildPriorityClass("high", 100), util.BuildPriorityClass("middle", 10), util.BuildPriorityClass("low", 1),
		},
		PodGroups: []*v1beta1.PodGroup{
			util.BuildPodGroupWithPrio("gang", "ns", "q", 2, nil, v1beta1.PodGroupInqueue, "low"),
			util.BuildPodGroupWithPrio("important", "ns", "q", 1, nil, v1beta1.PodGroupInqueue, "high"),
			util.BuildPodGroupWithPrio("new", "ns", "q", 1, nil, v1beta1.PodGroupInqueue, "middle"),
		},
		Nodes: []*v1.Node{util.BuildNode("node", api.BuildResourceList("4", "8Gi", api.ScalarResource{Name: "pods", Value: "10"}), nil)},
		Pods: []*v1.Pod{
			member("low-0", "gang", "node", v1.PodRunning, "1"), member("low-1", "gang", "node", v1.PodRunning, "1"),
			member("high-0", "important", "node", v1.PodRunning, "1"), member("high-1", "important", "node", v1.PodRunning, "1"),
			member("middle", "new", "", v1.PodPending, "4"),
		},
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	tier := conf.Tier{}
	for _, name := range names {
		option := conf.PluginOption{Name: name}
		plugins.ApplyPluginConfDefaults(&option)
		tier.Plugins = append(tier.Plugins, option)
	}
	session := world.RegisterSession([]conf.Tier{tier}, nil)
	defer world.Close()
	world.Run([]framework.Action{preempt.New()})
	return tasks(session, api.Releasing)
}
GO
)
echo "Volcano $VOLCANO, pods that a pod of middle priority evicts, by the plugins of the tier:"
echo "$seen"
[ "$seen" = "SEEN priority, gang: []
SEEN priority, gang, conformance: [high-0 high-1 low-0 low-1]" ] || { echo "This has changed." && exit 1; }
