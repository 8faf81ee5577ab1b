#!/usr/bin/env bash
# Volcano, plugin sla: with the configuration of its own page, nothing is held for a gang that waited too long.
#
# By that page, once `sla-waiting-time` is over, the nodes on which some pods of a gang fit are held for it
# until all do, so that small jobs no longer starve a large one, whatever other plugins say. The example puts
# `sla` behind `gang` in one tier. But there one refusal is enough, and `gang` refuses each gang that is not
# whole. The room is given to the next small job, for ever. In a tier above `gang` the plugin does what its
# page says.
#
# A node of 8 CPUs with 4 free, a gang of two pods of 4 CPUs that has waited for an hour with a bound of a
# minute, and a new pod of 4 CPUs.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
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
	show([]string{"priority", "gang"})
	show([]string{"priority", "gang", "sla"})
	show([]string{"sla"}, []string{"priority", "gang"})
}

func member(name, group, node string, phase v1.PodPhase) *v1.Pod {
	return util.BuildPod("ns", name, node, phase, api.BuildResourceList("4", "1Gi"), group, map[string]string{}, map[string]string{})
}

func group(name string, minimum int32, age time.Duration) *v1beta1.PodGroup {
	group := util.BuildPodGroup(name, "ns", "q", minimum, nil, v1beta1.PodGroupInqueue)
	group.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
	return group
}

func show(names ...[]string) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			priority.PluginName: priority.New, gang.PluginName: gang.New, sla.PluginName: sla.New},
		PodGroups: []*v1beta1.PodGroup{group("old", 1, 2*time.Hour), group("gang", 2, time.Hour), group("small", 1, time.Second)},
		Nodes:     []*v1.Node{node("node", nil)},
		Queues:    []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
		Pods: []*v1.Pod{member("old", "old", "node", v1.PodRunning), member("gang-0", "gang", "", v1.PodPending),
			member("gang-1", "gang", "", v1.PodPending), member("small", "small", "", v1.PodPending)},
	}
	tiers := []conf.Tier{}
	for _, tier := range names {
		options := conf.Tier{}
		for _, name := range tier {
			option := conf.PluginOption{Name: name}
			if name == sla.PluginName {
				option.Arguments = framework.Arguments{"sla-waiting-time": "1m"}
			}
			plugins.ApplyPluginConfDefaults(&option)
			options.Plugins = append(options.Plugins, option)
		}
		tiers = append(tiers, options)
	}
	session := world.RegisterSession(tiers, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New()})
	fmt.Printf("SEEN tiers %v: bound %v, pods of the gang that hold room %d\n", names,
		tasks(session, api.Binding), len(session.Jobs["ns/gang"].TaskStatusIndex[api.Allocated]))
}
GO
)
echo "Volcano $VOLCANO, allocate:"
echo "$seen"
[ "$seen" = "SEEN tiers [[priority gang]]: bound [small], pods of the gang that hold room 0
SEEN tiers [[priority gang sla]]: bound [small], pods of the gang that hold room 0
SEEN tiers [[sla] [priority gang]]: bound [], pods of the gang that hold room 1" ] || { echo "This has changed." && exit 1; }
