#!/usr/bin/env bash
# KAI, GPU memory: the last megabytes of a GPU cannot be asked for.
#
# The annotation `gpu-memory` is in MiB, and so is the label `nvidia.com/gpu.memory`, in which a node says
# how much each of its GPUs has: 81559 for an H100 of 80 GB. KAI cuts the label to whole hundreds. A pod
# that asks for all the memory that the label names waits for ever, beside an idle GPU and without a limit
# in its way, and two pods that ask for half each need two GPUs. Nothing says so to the user: the label of
# the node is higher than the request.
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
	for _, memory := range []uint64{81559, 81501, 81500} {
		fmt.Printf("SEEN one pod that asks for %d MiB: placed %d\n", memory, placed(t, memory, 1))
	}
	for _, memory := range []uint64{40779, 40750} {
		fmt.Printf("SEEN two pods that ask for %d MiB each: placed %d\n", memory, placed(t, memory, 2))
	}
}

// placed is how many of these pods get a place on a node with one GPU of 81559 MiB.
func placed(t *testing.T, memory uint64, pods int) int {
	jobs := []*jobs_fake.TestJobBasic{}
	for number := range pods {
		jobs = append(jobs, &jobs_fake.TestJobBasic{Name: fmt.Sprint("job-", number), QueueName: "queue",
			Priority: constants.PriorityTrainNumber, RequiredGpuMemory: memory,
			Tasks: []*tasks_fake.TestTaskBasic{{State: pod_status.Pending}}})
	}
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name:   "memory",
		Jobs:   jobs,
		Nodes:  map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 1, GPUMemory: 81559}},
		Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 4}},
		Mocks:  &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{NumberOfCacheBinds: 2}},
	}, gomock.NewController(t))
	allocate.New().Execute(session)
	count := 0
	for _, job := range session.PodGroupInfos {
		for _, task := range job.GetAllPodsMap() {
			if task.NodeName != "" {
				count++
			}
		}
	}
	return count
}
GO
)
echo "KAI $KAI, a node with one GPU, labelled nvidia.com/gpu.memory=81559:"
echo "$seen"
[ "$seen" = "SEEN one pod that asks for 81559 MiB: placed 0
SEEN one pod that asks for 81501 MiB: placed 0
SEEN one pod that asks for 81500 MiB: placed 1
SEEN two pods that ask for 40779 MiB each: placed 1
SEEN two pods that ask for 40750 MiB each: placed 2" ] || { echo "This has changed." && exit 1; }
