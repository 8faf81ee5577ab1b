#!/usr/bin/env bash
# KAI, plugin gpusharingorder: pods without GPUs fill the nodes on which somebody shares a GPU.
#
# The plugin adds 1000 to the score of a node with a shared GPU that still has room for the pod's GPU
# memory. A pod that asks for no GPU memory fits into every one of them, so it gets the 1000 as well. That
# is more than the 10 of the plugin resourcetype, which is there to keep such pods on nodes without GPUs.
# One pod with half a GPU draws the cluster's plain pods onto its node, until its cores are used up and
# nobody can use the rest of its GPUs, while the nodes without GPUs stay empty.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kai.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kai_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/allocate"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/jobs_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/nodes_fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/tasks_fake"
	"go.uber.org/mock/gomock"
)

func TestFinding(t *testing.T) {
	test_utils.InitTestingInfrastructure()
	fmt.Println("SEEN beside a whole GPU in use:", plainPod(t, 1, nil))
	fmt.Println("SEEN beside half a GPU in use:", plainPod(t, 0.5, []string{"0"}))
}

// plainPod is the node of a pod with cores alone, where another pod uses this much of the GPU node.
func plainPod(t *testing.T, gpus float64, groups []string) string {
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name: "sharing",
		Jobs: []*jobs_fake.TestJobBasic{
			{Name: "gpu", QueueName: "queue", Priority: constants.PriorityTrainNumber, RequiredGPUsPerTask: gpus,
				Tasks: []*tasks_fake.TestTaskBasic{
					{State: pod_status.Running, NodeName: "gpu-node", GPUGroups: groups}}},
			{Name: "plain", QueueName: "queue", Priority: constants.PriorityTrainNumber, RequiredCPUsPerTask: 1000,
				Tasks: []*tasks_fake.TestTaskBasic{{State: pod_status.Pending}}},
		},
		Nodes:  map[string]nodes_fake.TestNodeBasic{"gpu-node": {GPUs: 4}, "cpu-node": {}},
		Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 4}},
		Mocks:  &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{NumberOfCacheBinds: 1}},
	}, gomock.NewController(t))
	allocate.New().Execute(session)
	for _, task := range session.PodGroupInfos["plain"].GetAllPodsMap() {
		return task.NodeName
	}
	return ""
}
GO
)
echo "KAI $KAI, node of a pod without GPUs, where one node has GPUs and the other is empty:"
echo "$seen"
[ "$seen" = "SEEN beside a whole GPU in use: cpu-node
SEEN beside half a GPU in use: gpu-node" ] || { echo "This has changed." && exit 1; }
