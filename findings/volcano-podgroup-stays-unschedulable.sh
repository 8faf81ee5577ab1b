#!/usr/bin/env bash
# Volcano, PodGroup: the condition Unschedulable stays True while all pods of the gang run.
#
# The scheduler writes conditions into a PodGroup's status: Unschedulable=True in each round in which the
# gang finds no room, and Scheduled=True once it did. By the conventions of Kubernetes a condition says
# what holds now. Nothing ever makes Unschedulable False again or takes it away, so that a gang that runs
# has both, and `kubectl wait --for=condition=Unschedulable` or an alert on it finds every gang that has
# waited once. What was true last shows in the times of transition alone.
#
# Three rounds of one scheduler: a gang of two pods and one node; a second node; both pods run.
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
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	group := util.BuildPodGroup("job", "ns", "q", 2, nil, v1beta1.PodGroupInqueue)
	round(t, "one node", group, member("0", ""), member("1", ""))
	round(t, "two nodes", group, member("0", ""), member("1", ""))
	round(t, "running", group, member("0", "one"), member("1", "two"))
}

// member asks for a whole node, and runs if it is on one.
func member(name, node string) *v1.Pod {
	phase := v1.PodPending
	if node != "" {
		phase = v1.PodRunning
	}
	return util.BuildPod("ns", name, node, phase, api.BuildResourceList("8", "8Gi"), "job", map[string]string{}, map[string]string{})
}

// round is one session, at whose end the PodGroup gets the status that the scheduler writes.
func round(t *testing.T, title string, group *v1beta1.PodGroup, pods ...*v1.Pod) {
	nodes := []*v1.Node{node("one", nil)}
	if title != "one node" {
		nodes = append(nodes, node("two", nil))
	}
	world := &uthelper.TestCommonStruct{
		Plugins:   map[string]framework.PluginBuilder{gang.PluginName: gang.New},
		PodGroups: []*v1beta1.PodGroup{group}, Nodes: nodes, Pods: pods,
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	yes := true
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{
		{Name: gang.PluginName, EnabledJobReady: &yes, EnabledJobPipelined: &yes},
	}}}, nil)
	job := session.Jobs["ns/job"]
	world.Run([]framework.Action{allocate.New()})
	world.Close()
	if err := scheme.Scheme.Convert(&job.PodGroup.Status, &group.Status, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("SEEN %s: pods that run %d", title, group.Status.Running)
	for _, condition := range group.Status.Conditions {
		fmt.Printf(", %s=%s", condition.Type, condition.Status)
	}
	fmt.Println()
}
GO
)
echo "Volcano $VOLCANO, status of the PodGroup after each round:"
echo "$seen"
[ "$seen" = "SEEN one node: pods that run 0, Unschedulable=True
SEEN two nodes: pods that run 0, Unschedulable=True, Scheduled=True
SEEN running: pods that run 2, Unschedulable=True, Scheduled=True" ] || { echo "This has changed." && exit 1; }
