#!/usr/bin/env bash
# KAI, actions preempt and reclaim: a job that gives up its surplus before the rest is subtracted twice.
#
# A job with more pods than its minimum loses the surplus first, one pod after the other. With each further
# step of the search the pods of the steps before are taken off once more from what their queue uses. So the
# queue seems to use less than it will, and the preemptor may go beyond the queue's limit, which allocate, without
# victims, keeps. A job without surplus is counted right. When the victims have left allocate refuses the
# gang, so that pods were evicted for one that cannot start.
#
# A node of 8 GPUs; the queue has a limit of 4, and runs a less important job of 4 pods of one GPU.
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
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/preempt"
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
	for _, surplus := range []int{0, 3} {
		for _, size := range []int{4, 5, 7, 8} {
			show(t, surplus, size)
		}
	}
}

// show runs one cycle of allocate and preempt for a gang of pods of one GPU each.
func show(t *testing.T, surplus, size int) {
	gang := &jobs_fake.TestJobBasic{Name: "gang", QueueName: "queue", Priority: constants.PriorityTrainNumber + 10,
		RequiredGPUsPerTask: 1, RootSubGroupSet: jobs_fake.DefaultSubGroup(int32(size))}
	for range size {
		gang.Tasks = append(gang.Tasks, &tasks_fake.TestTaskBasic{State: pod_status.Pending})
	}
	train := &jobs_fake.TestJobBasic{Name: "train", QueueName: "queue", Priority: constants.PriorityTrainNumber,
		RequiredGPUsPerTask: 1, RootSubGroupSet: jobs_fake.DefaultSubGroup(int32(4 - surplus))}
	for range 4 {
		train.Tasks = append(train.Tasks, &tasks_fake.TestTaskBasic{State: pod_status.Running, NodeName: "node"})
	}
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name:   "limit",
		Jobs:   []*jobs_fake.TestJobBasic{gang, train},
		Nodes:  map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 8}},
		Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 4, MaxAllowedGPUs: 4}},
		Mocks: &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{
			NumberOfCacheBinds: 8, NumberOfCacheEvictions: 8, NumberOfPipelineActions: 8}},
	}, gomock.NewController(t))
	allocate.New().Execute(session)
	preempt.New().Execute(session)
	stays, promised := 0, 0
	for _, task := range session.PodGroupInfos["train"].GetAllPodsMap() {
		if task.Status == pod_status.Running {
			stays++
		}
	}
	for _, task := range session.PodGroupInfos["gang"].GetAllPodsMap() {
		if task.Status == pod_status.Pipelined {
			promised++
		}
	}
	fmt.Printf("SEEN surplus of the running job %d: GPUs promised to a gang of %d: %d, still used by the job %d\n",
		surplus, size, promised, stays)
}
GO
)
echo "KAI $KAI, a queue with a limit of 4 GPUs, which a running job uses:"
echo "$seen"
[ "$seen" = "SEEN surplus of the running job 0: GPUs promised to a gang of 4: 4, still used by the job 0
SEEN surplus of the running job 0: GPUs promised to a gang of 5: 0, still used by the job 4
SEEN surplus of the running job 0: GPUs promised to a gang of 7: 0, still used by the job 4
SEEN surplus of the running job 0: GPUs promised to a gang of 8: 0, still used by the job 4
SEEN surplus of the running job 3: GPUs promised to a gang of 4: 4, still used by the job 2
SEEN surplus of the running job 3: GPUs promised to a gang of 5: 5, still used by the job 1
SEEN surplus of the running job 3: GPUs promised to a gang of 7: 7, still used by the job 0
SEEN surplus of the running job 3: GPUs promised to a gang of 8: 0, still used by the job 4" ] || { echo "This has changed." && exit 1; }
