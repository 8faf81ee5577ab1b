#!/usr/bin/env bash
# KAI, actions consolidation, reclaim and preempt: a job is not searched for because another one failed.
#
# With use-scheduling-signatures, which is the default, an action remembers a job for which it found no
# victims, and passes over others that are "not easier". Easier is a job with fewer waiting pods, or with a
# pod that asks for less. How many of its pods a job needs to start does not count, nor whose queue it is
# in. So a gang of three that can never have three GPUs keeps preemption from a job of three pods that
# needs only one of them, as long as the gang waits. Without the gang the job gets its GPU at once.
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
	fmt.Println("SEEN the job of three pods that needs one, alone:", placed(t, false))
	fmt.Println("SEEN the same beside a waiting gang of three:", placed(t, true))
}

// placed is how many pods of the job get a GPU that a less important job has.
func placed(t *testing.T, beside bool) int {
	pods := func() []*tasks_fake.TestTaskBasic {
		return []*tasks_fake.TestTaskBasic{
			{State: pod_status.Pending}, {State: pod_status.Pending}, {State: pod_status.Pending}}
	}
	jobs := []*jobs_fake.TestJobBasic{
		{Name: "train", QueueName: "queue", Priority: constants.PriorityTrainNumber, RequiredGPUsPerTask: 2,
			Tasks: []*tasks_fake.TestTaskBasic{{State: pod_status.Running, NodeName: "node"}}},
		{Name: "job", QueueName: "queue", Priority: constants.PriorityBuildNumber, RequiredGPUsPerTask: 1,
			RootSubGroupSet: jobs_fake.DefaultSubGroup(1), Tasks: pods()},
	}
	if beside {
		jobs = append(jobs, &jobs_fake.TestJobBasic{Name: "gang", QueueName: "queue", JobAgeInMinutes: 60,
			Priority: constants.PriorityBuildNumber, RequiredGPUsPerTask: 1,
			RootSubGroupSet: jobs_fake.DefaultSubGroup(3), Tasks: pods()})
	}
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name:   "failed",
		Jobs:   jobs,
		Nodes:  map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 2}},
		Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 4}},
		Mocks: &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{
			NumberOfCacheEvictions: 1, NumberOfPipelineActions: 3}},
	}, gomock.NewController(t))
	session.SchedulerParams.UseSchedulingSignatures = true
	preempt.New().Execute(session)
	count := 0
	for _, task := range session.PodGroupInfos["job"].GetAllPodsMap() {
		if task.Status == pod_status.Pipelined {
			count++
		}
	}
	return count
}
GO
)
echo "KAI $KAI, pods that preempt gives a place, on a node with two GPUs:"
echo "$seen"
[ "$seen" = "SEEN the job of three pods that needs one, alone: 1
SEEN the same beside a waiting gang of three: 0" ] || { echo "This has changed." && exit 1; }
