#!/usr/bin/env bash
# Volcano, plugin proportion: an idle GPU is given to nobody, because two queues want it.
#
# `proportion` divides what the cluster has among the queues that ask, by weight, and lets none go beyond
# its part. Parts are not rounded to whole devices. One GPU and two queues that ask for it make half a GPU for
# each, a pod needs a whole one, and both wait as long as the other one does. Of five GPUs two such
# queues use four. As soon as one of the queues asks for nothing the other gets all. It is the plugin of the
# default configuration.
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
	show(1, 1)
	show(1, 2)
	show(5, 2)
	show(7, 3)
}

// show lets queues of equal weight ask for all GPUs of one node, each by pods of one GPU.
func show(gpus, queues int) {
	count := func(number int) api.ScalarResource {
		return api.ScalarResource{Name: "nvidia.com/gpu", Value: fmt.Sprint(number)}
	}
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{gang.PluginName: gang.New, proportion.PluginName: proportion.New},
		Nodes: []*v1.Node{util.BuildNode("node",
			api.BuildResourceList("64", "64Gi", count(gpus), api.ScalarResource{Name: "pods", Value: "110"}), nil)},
	}
	for queue := range queues {
		name := fmt.Sprint("queue-", queue)
		world.Queues = append(world.Queues, util.BuildQueue(name, 1, nil))
		for number := range gpus {
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
	fmt.Printf("SEEN %d GPUs, queues that ask for all of them %d: GPUs in use %d\n", gpus, queues, len(tasks(session, api.Binding)))
}
GO
)
echo "Volcano $VOLCANO, allocate:"
echo "$seen"
[ "$seen" = "SEEN 1 GPUs, queues that ask for all of them 1: GPUs in use 1
SEEN 1 GPUs, queues that ask for all of them 2: GPUs in use 0
SEEN 5 GPUs, queues that ask for all of them 2: GPUs in use 4
SEEN 7 GPUs, queues that ask for all of them 3: GPUs in use 6" ] || { echo "This has changed." && exit 1; }
