#!/usr/bin/env bash
# Volcano, plugin capacity with queues in a tree: in one session one department takes all that is free.
#
# With a tree of queues, `capacity` compares two queues by their first ancestors that differ: who has used less
# of what it deserves goes first. A placed pod counts as used in its queue and in all queues above it, but the
# share of use that is compared is computed anew for its own queue alone. The departments are compared all session
# long by what they used at its begin. Two that begin alike do not take turns; one gets everything.
# The same queues without departments take turns.
#
# A node of 4 CPUs, the other one is down. Two queues deserve 4 each and ask for 4 each, by jobs of 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(volcano_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("without departments", false)
	show("each in a department", true)
}

func queue(name, parent string) *v1beta1.Queue {
	queue := util.BuildQueueWithResourcesQuantity(name, api.BuildResourceList("4", "4Gi"), nil)
	queue.Spec.Parent = parent
	return queue
}

func show(title string, departments bool) {
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{gang.PluginName: gang.New, capacity.PluginName: capacity.New},
		Nodes: []*v1.Node{util.BuildNode("node",
			api.BuildResourceList("4", "4Gi", api.ScalarResource{Name: "pods", Value: "110"}), nil)},
	}
	if departments {
		world.Queues = append(world.Queues, util.BuildQueue("root", 1, nil), queue("dept-a", "root"), queue("dept-b", "root"))
	}
	for _, letter := range []string{"a", "b"} {
		parent := ""
		if departments {
			parent = "dept-" + letter
		}
		world.Queues = append(world.Queues, queue("queue-"+letter, parent))
		for number := range 4 {
			job := fmt.Sprint(letter, "-", number)
			world.PodGroups = append(world.PodGroups, util.BuildPodGroup(job, "ns", "queue-"+letter, 1, nil, v1beta1.PodGroupInqueue))
			world.Pods = append(world.Pods, util.BuildPod("ns", job, "", v1.PodPending,
				api.BuildResourceList("1", "1Gi"), job, map[string]string{}, map[string]string{}))
		}
	}
	tier := conf.Tier{}
	for _, name := range []string{"gang", "capacity"} {
		option := conf.PluginOption{Name: name}
		if name == "capacity" {
			option.EnabledHierarchy = &departments
		}
		plugins.ApplyPluginConfDefaults(&option)
		tier.Plugins = append(tier.Plugins, option)
	}
	session := world.RegisterSession([]conf.Tier{tier}, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New()})
	count := map[string]int{"a": 0, "b": 0}
	for _, name := range tasks(session, api.Binding) {
		count[strings.Split(name, "-")[0]]++
	}
	numbers := []int{count["a"], count["b"]}
	sort.Ints(numbers)
	fmt.Printf("SEEN two queues %s: pods of the one %d, of the other %d\n", title, numbers[1], numbers[0])
}
GO
)
echo "Volcano $VOLCANO, allocate:"
echo "$seen"
[ "$seen" = "SEEN two queues without departments: pods of the one 2, of the other 2
SEEN two queues each in a department: pods of the one 4, of the other 0" ] || { echo "This has changed." && exit 1; }
