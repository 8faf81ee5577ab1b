#!/usr/bin/env bash
# Volcano, plugin resourcequota: a job that another plugin refuses uses up the namespace's quota.
#
# The plugin lets a job in where the namespace's ResourceQuota has room for it, and adds the job to what
# it let in during this round. It adds when it is asked, not when the job is in. Where a plugin behind it
# in the list refuses the job, as overcommit does with a job larger than the cluster, the amount stays
# taken, and smaller jobs after it are refused for want of quota, of which nothing is used. The next
# round begins in the same order, so that they wait as long as the large job does. With the two plugins
# listed the other way round the small job is let in.
#
# Two nodes of 4 CPUs and a quota of 16: a job of 12 CPUs has to wait, one of 6 CPUs need not.
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/overcommit"
	"volcano.sh/volcano/pkg/scheduler/plugins/resourcequota"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	large, small := group("large", 0, "12"), group("small", 1, "6")
	show([]string{"overcommit", "resourcequota"}, large, small)
	show([]string{"resourcequota", "overcommit"}, large, small)
	show([]string{"resourcequota", "overcommit"}, small)
}

func group(name string, minute int, cpu string) *v1beta1.PodGroup {
	group := util.BuildPodGroupWithMinResources(name, "ns", "q", 1, nil, cpus(cpu), v1beta1.PodGroupPending)
	group.CreationTimestamp = metav1.NewTime(time.Unix(int64(60*minute), 0))
	return group
}

func cpus(number string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(number)}
}

func show(order []string, groups ...*v1beta1.PodGroup) {
	room := api.BuildResourceList("4", "8Gi", api.ScalarResource{Name: "pods", Value: "10"})
	world := &uthelper.TestCommonStruct{
		Plugins: map[string]framework.PluginBuilder{
			overcommit.PluginName: overcommit.New, resourcequota.PluginName: resourcequota.New,
		},
		PodGroups:      groups,
		Nodes:          []*v1.Node{util.BuildNode("a", room, nil), util.BuildNode("b", room, nil)},
		Queues:         []*v1beta1.Queue{util.BuildQueue("q", 1, nil)},
		ResourceQuotas: []*v1.ResourceQuota{util.BuildResourceQuota("quota", "ns", cpus("16"))},
	}
	yes := true
	tier := conf.Tier{}
	for _, name := range order {
		tier.Plugins = append(tier.Plugins, conf.PluginOption{Name: name, EnabledJobEnqueued: &yes})
	}
	session := world.RegisterSession([]conf.Tier{tier}, nil)
	defer world.Close()
	world.Run([]framework.Action{enqueue.New()})
	jobs, admitted := []string{}, []string{}
	for _, group := range groups {
		jobs = append(jobs, group.Name)
		if session.Jobs[api.JobID("ns/"+group.Name)].PodGroup.Status.Phase == scheduling.PodGroupInqueue {
			admitted = append(admitted, group.Name)
		}
	}
	fmt.Println("SEEN plugins", order, "jobs", jobs, "let in:", admitted)
}
GO
)
echo "Volcano $VOLCANO:"
echo "$seen"
[ "$seen" = "SEEN plugins [overcommit resourcequota] jobs [large small] let in: [small]
SEEN plugins [resourcequota overcommit] jobs [large small] let in: []
SEEN plugins [resourcequota overcommit] jobs [small] let in: [small]" ] || { echo "This has changed." && exit 1; }
