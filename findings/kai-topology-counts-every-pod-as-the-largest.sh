#!/usr/bin/env bash
# KAI, plugin topology: a gang that fits into a rack is refused, because every pod counts as the largest.
#
# Before KAI places a gang with a required topology level, it counts how many pods each domain can take.
# Where all pods of a gang ask for GPUs, or none does, it counts copies of one pod that has the maximum
# of each resource over the gang. A gang of a pod with 7 GPUs and one with 1 GPU fits exactly on the node
# of 8 GPUs of a rack, but two pods of 7 do not: the gang waits for ever with "not enough resources in r1
# to allocate the job". Without the constraint, KAI puts the same gang on that very node.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kai.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kai_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"sort"
	"testing"

	kaiv1alpha1 "github.com/NVIDIA/KAI-scheduler/pkg/apis/kai/v1alpha1"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/allocate"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info/subgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/topology_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/jobs_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/nodes_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/tasks_fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestFinding(t *testing.T) {
	test_utils.InitTestingInfrastructure()
	rack := &topology_info.TopologyConstraintInfo{Topology: "racks", RequiredLevel: "rack"}
	fmt.Println("SEEN 7 and 1 GPUs, anywhere:", nodes(t, nil, 7, 1))
	fmt.Println("SEEN 7 and 1 GPUs, one rack:", nodes(t, rack, 7, 1))
	fmt.Println("SEEN 4 and 4 GPUs, one rack:", nodes(t, rack, 4, 4))
}

// nodes places a gang on a cluster of one rack with one node of 8 GPUs.
func nodes(t *testing.T, constraint *topology_info.TopologyConstraintInfo, gpus ...int64) []string {
	job := &jobs_fake.TestJobBasic{Name: "gang", QueueName: "queue", Priority: constants.PriorityTrainNumber,
		RootSubGroupSet: subgroup_info.NewSubGroupSet(subgroup_info.RootSubGroupSetName, constraint)}
	for _, count := range gpus {
		job.Tasks = append(job.Tasks, &tasks_fake.TestTaskBasic{State: pod_status.Pending, RequiredGPUs: ptr.To(count)})
	}
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name: "rack",
		Topologies: []*kaiv1alpha1.Topology{{ObjectMeta: metav1.ObjectMeta{Name: "racks"},
			Spec: kaiv1alpha1.TopologySpec{Levels: []kaiv1alpha1.TopologyLevel{{NodeLabel: "rack"}}}}},
		Jobs:   []*jobs_fake.TestJobBasic{job},
		Nodes:  map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 8, Labels: map[string]string{"rack": "r1"}}},
		Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 8}},
		Mocks:  &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{NumberOfCacheBinds: len(gpus)}},
	}, gomock.NewController(t))
	allocate.New().Execute(session)
	places := []string{}
	for _, task := range session.PodGroupInfos["gang"].GetAllPodsMap() {
		places = append(places, fmt.Sprint(task.Status, " ", task.NodeName))
	}
	sort.Strings(places)
	return places
}
GO
)
echo "KAI $KAI, a gang of two on a rack of one node with 8 GPUs:"
echo "$seen"
[ "$seen" = "SEEN 7 and 1 GPUs, anywhere: [Binding node Binding node]
SEEN 7 and 1 GPUs, one rack: [Pending  Pending ]
SEEN 4 and 4 GPUs, one rack: [Binding node Binding node]" ] || { echo "This has changed." && exit 1; }
