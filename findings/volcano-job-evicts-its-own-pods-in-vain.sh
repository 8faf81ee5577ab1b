#!/usr/bin/env bash
# Volcano, action preempt: a job's pods are evicted for a pod of the same job that is not placed anyhow.
#
# A pod may take the place of less important pods of its own job. Where it is the queue that has no room,
# preempt evicts such pods on one node after the other, and looks each time whether the queue would let
# the pod in. Where it does not even without all of them, the evictions are carried out all the same;
# those of other jobs' pods are undone in such a case. The job loses all its running pods, and the pod
# for which they went is promised no node.
#
# Here the queue may use 7 CPUs, three workers use one each, and the job's server, made anew after a
# failure, asks for 4, which a more important job has taken meanwhile. In a queue of 11 CPUs nobody is
# evicted. The plugins priority and gang are set as in Volcano's chart.
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
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("7")
	show("11")
}

func member(name, group, node string, phase v1.PodPhase, cpu string, priority int32) *v1.Pod {
	return util.BuildPodWithPriority("ns", name, node, phase, api.BuildResourceList(cpu, "1Gi"), group,
		map[string]string{}, map[string]string{}, &priority)
}

func option(name string) conf.PluginOption {
	option := conf.PluginOption{Name: name}
	if no := false; name == gang.PluginName {
		option.EnabledPreemptable = &no
	}
	plugins.ApplyPluginConfDefaults(&option)
	return option
}

func show(capability string) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			priority.PluginName: priority.New, gang.PluginName: gang.New,
			conformance.PluginName: conformance.New, proportion.PluginName: proportion.New,
		},
		PriClass: []*schedulingv1.PriorityClass{util.BuildPriorityClass("normal", 1), util.BuildPriorityClass("high", 100)},
		PodGroups: []*v1beta1.PodGroup{
			util.BuildPodGroupWithPrio("job", "ns", "q", 4, nil, v1beta1.PodGroupRunning, "normal"),
			util.BuildPodGroupWithPrio("other", "ns", "q", 1, nil, v1beta1.PodGroupRunning, "high"),
		},
		Nodes: []*v1.Node{node("n1", nil), node("n2", nil), node("n3", nil)},
		Pods: []*v1.Pod{
			member("worker-0", "job", "n1", v1.PodRunning, "1", 1), member("worker-1", "job", "n2", v1.PodRunning, "1", 1),
			member("worker-2", "job", "n3", v1.PodRunning, "1", 1), member("other-0", "other", "n3", v1.PodRunning, "4", 100),
			member("server", "job", "", v1.PodPending, "4", 10),
		},
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, api.BuildResourceList(capability, "100Gi"))},
	}
	session := world.RegisterSession([]conf.Tier{
		{Plugins: []conf.PluginOption{option("priority"), option("gang"), option("conformance")}},
		{Plugins: []conf.PluginOption{option("proportion")}},
	}, nil)
	defer world.Close()
	world.Run([]framework.Action{preempt.New()})
	fmt.Printf("SEEN queue of %s CPUs: evicted %v, promised a node: %v\n", capability,
		tasks(session, api.Releasing), tasks(session, api.Pipelined))
}
GO
)
echo "Volcano $VOLCANO:"
echo "$seen"
[ "$seen" = "SEEN queue of 7 CPUs: evicted [worker-0 worker-1 worker-2], promised a node: []
SEEN queue of 11 CPUs: evicted [], promised a node: [server]" ] || { echo "This has changed." && exit 1; }
