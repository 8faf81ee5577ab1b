#!/usr/bin/env bash
# Volcano, action reclaim: with the tiers that the plugins' guide gives, a queue loses what it is owed.
#
# `capacity` and `proportion` say from which queue may be reclaimed: from one that has more than it
# deserves. Tiers are asked in turn, and the first one that names a victim decides. In the configuration
# that is installed, and in the guide to capacity that adds reclaim to it, `gang` and `conformance` stand in the
# tier above. They refuse members of gangs and pods of the system, and name everybody else, so that
# capacity is never asked. A queue that uses less than it deserves is evicted for another that does, too. With
# the plugins in one tier it keeps its pods.
#
# A node of 8 CPUs: `owner` deserves 6 and uses 4; `borrower` deserves none, uses 4, and has `reclaimable: false`;
# `new` deserves 2 and asks for 1.
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
	"volcano.sh/volcano/pkg/scheduler/plugins/conformance"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show([]string{"gang", "conformance"}, []string{"capacity"})
	show([]string{"gang", "conformance", "capacity"})
}

func member(name, group, node string, phase v1.PodPhase) *v1.Pod {
	return util.BuildPod("ns", name, node, phase, api.BuildResourceList("1", "1Gi"), group,
		map[string]string{v1beta1.PodPreemptable: "true"}, map[string]string{})
}

func queue(name, cpu string, reclaimable bool) *v1beta1.Queue {
	queue := util.BuildQueueWithResourcesQuantity(name, api.BuildResourceList(cpu, cpu+"Gi"), nil)
	queue.Spec.Reclaimable = &reclaimable
	return queue
}

func show(names ...[]string) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{gang.PluginName: gang.New,
			conformance.PluginName: conformance.New, capacity.PluginName: capacity.New},
		PodGroups: []*v1beta1.PodGroup{
			util.BuildPodGroup("of-owner", "ns", "owner", 1, nil, v1beta1.PodGroupRunning),
			util.BuildPodGroup("of-borrower", "ns", "borrower", 1, nil, v1beta1.PodGroupRunning),
			util.BuildPodGroup("of-new", "ns", "new", 1, nil, v1beta1.PodGroupInqueue),
		},
		Nodes:  []*v1.Node{node("node", nil)},
		Queues: []*v1beta1.Queue{queue("owner", "6", true), queue("borrower", "0", false), queue("new", "2", true)},
		Pods:   []*v1.Pod{member("new-0", "of-new", "", v1.PodPending)},
	}
	for number := range 4 {
		world.Pods = append(world.Pods,
			member(fmt.Sprint("owner-", number), "of-owner", "node", v1.PodRunning),
			member(fmt.Sprint("borrower-", number), "of-borrower", "node", v1.PodRunning))
	}
	tiers := []conf.Tier{}
	for _, tier := range names {
		options := conf.Tier{}
		for _, name := range tier {
			option := conf.PluginOption{Name: name}
			if no := false; name == gang.PluginName {
				option.EnabledPreemptable = &no
			}
			plugins.ApplyPluginConfDefaults(&option)
			options.Plugins = append(options.Plugins, option)
		}
		tiers = append(tiers, options)
	}
	session := world.RegisterSession(tiers, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New(), reclaim.New()})
	evicted := map[string]int{}
	for _, job := range session.Jobs {
		if count := len(job.TaskStatusIndex[api.Releasing]); count > 0 {
			evicted[string(job.Queue)] = count
		}
	}
	fmt.Printf("SEEN tiers %v: evicted %v, promised a node %v\n", names, evicted, tasks(session, api.Pipelined))
}
GO
)
echo "Volcano $VOLCANO, pods that reclaim evicts for one of the queue new, by queue:"
echo "$seen"
[ "$seen" = "SEEN tiers [[gang conformance] [capacity]]: evicted map[owner:1], promised a node [new-0]
SEEN tiers [[gang conformance capacity]]: evicted map[], promised a node []" ] || { echo "This has changed." && exit 1; }
