#!/usr/bin/env bash
# Volcano, plugin proportion: with weights 2 and 5 the second of two GPUs is given to nobody.
#
# `proportion` adds up each queue's part in rounds, in floating point: what its weight gives, then what
# queues that want less have left. The parts of 2/7 and then of the rest come to 999.9999999999999 thousandths
# of a GPU, and the comparison of what the queue would use with its part allows no error, unlike Volcano's
# other comparisons of amounts. The only pod that waits fits the only free GPU, and stays there for as long as
# nothing else changes. With equal weights it starts.
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
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show(2, 1, 1, 1)
	show(2, 2, 5, 1)
	show(3, 1, 8, 2)
	show(4, 1, 6, 3)
	show(5, 3, 4, 2)
}

// show lets a queue of the first weight ask for all GPUs of a node, and one of the second for this many.
func show(gpus, first, second, other int) {
	count := func(number int) api.ScalarResource {
		return api.ScalarResource{Name: "nvidia.com/gpu", Value: fmt.Sprint(number)}
	}
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{gang.PluginName: gang.New, proportion.PluginName: proportion.New},
		Nodes: []*v1.Node{util.BuildNode("node",
			api.BuildResourceList("64", "64Gi", count(gpus), api.ScalarResource{Name: "pods", Value: "110"}), nil)},
	}
	for queue, asked := range []int{gpus, other} {
		name := fmt.Sprint("queue-", queue)
		world.Queues = append(world.Queues, util.BuildQueue(name, []int32{int32(first), int32(second)}[queue], nil))
		for number := range asked {
			job := fmt.Sprint(name, "-", number)
			world.PodGroups = append(world.PodGroups, util.BuildPodGroup(job, "ns", name, 1, nil, v1beta1.PodGroupInqueue))
			world.Pods = append(world.Pods, util.BuildPod("ns", job, "", v1.PodPending,
				api.BuildResourceList("1", "1Gi", count(1)), job, map[string]string{}, map[string]string{}))
		}
	}
	tier := conf.Tier{}
	for _, name := range []string{"gang", "proportion"} {
		option := conf.PluginOption{Name: name}
		plugins.ApplyPluginConfDefaults(&option)
		tier.Plugins = append(tier.Plugins, option)
	}
	session := world.RegisterSession([]conf.Tier{tier}, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New()})
	fmt.Printf("SEEN %d GPUs, weights %d and %d, asked for %d and %d: GPUs in use %d\n",
		gpus, first, second, gpus, other, len(tasks(session, api.Binding)))
}
GO
)
echo "Volcano $VOLCANO, allocate with gang and proportion, pods of one GPU:"
echo "$seen"
[ "$seen" = "SEEN 2 GPUs, weights 1 and 1, asked for 2 and 1: GPUs in use 2
SEEN 2 GPUs, weights 2 and 5, asked for 2 and 1: GPUs in use 1
SEEN 3 GPUs, weights 1 and 8, asked for 3 and 2: GPUs in use 2
SEEN 4 GPUs, weights 1 and 6, asked for 4 and 3: GPUs in use 3
SEEN 5 GPUs, weights 3 and 4, asked for 5 and 2: GPUs in use 4" ] || { echo "This has changed." && exit 1; }
