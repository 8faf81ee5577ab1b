#!/usr/bin/env bash
# Volcano, allocate: a job whose minimum fits never starts, because its own surplus pods take the room.
#
# A Volcano Job says of each task how many of its pods are needed (`minAvailable`), so that it can begin small
# and grow. Allocate takes the pods of all tasks in one order, by priority, age and index, and does not ask which
# of them the minimum needs. Where the room is just what the minimum asks for, pods of the first task beyond
# its own minimum use it up, the minimum of another task is not met, and the job gets nothing: in each
# round, on an empty cluster. The same job with fewer surplus pods starts at once.
#
# A node of 4 CPUs, and tasks of which one launcher, two workers and one monitor of one CPU each are needed.
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
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show(1)
	show(4)
}

// show asks allocate for the job with this many launchers.
func show(launchers int) {
	group := util.BuildPodGroup("job", "ns", "q", 4, map[string]int32{"launcher": 1, "worker": 2, "monitor": 1}, v1beta1.PodGroupInqueue)
	world := &uthelper.TestCommonStruct{
		Plugins:   map[string]framework.PluginBuilder{gang.PluginName: gang.New, priority.PluginName: priority.New},
		PodGroups: []*v1beta1.PodGroup{group},
		Nodes: []*v1.Node{util.BuildNode("n", api.BuildResourceList("4", "64Gi", api.ScalarResource{Name: "pods", Value: "110"}), nil)},
		Queues: []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
	}
	counts := map[string]int{"launcher": launchers, "worker": 2, "monitor": 1}
	for _, role := range []string{"launcher", "worker", "monitor"} {
		for i := range counts[role] {
			name := fmt.Sprintf("job-%s-%d", role, i)
			waiting := pod(name)
			waiting.Annotations["volcano.sh/task-spec"] = role
			world.Pods = append(world.Pods, waiting)
		}
	}
	tier := conf.Tier{}
	for _, name := range []string{"priority", "gang"} {
		option := conf.PluginOption{Name: name}
		plugins.ApplyPluginConfDefaults(&option)
		tier.Plugins = append(tier.Plugins, option)
	}
	session := world.RegisterSession([]conf.Tier{tier}, nil)
	defer world.Close()
	world.Run([]framework.Action{allocate.New()})
	fmt.Printf("SEEN launchers %d: bound %v\n", launchers, tasks(session, api.Binding))
}
GO
)
echo "Volcano $VOLCANO, allocate:"
echo "$seen"
[ "$seen" = "SEEN launchers 1: bound [job-launcher-0 job-monitor-0 job-worker-0 job-worker-1]
SEEN launchers 4: bound []" ] || { echo "This has changed." && exit 1; }
