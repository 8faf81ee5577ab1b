#!/usr/bin/env bash
# KAI, plugin proportion: memory of several GPUs is held against a queue's limit as that of one.
#
# A pod may ask for a part of several devices (`gpu-fraction-num-devices`), the part as a fraction or, with
# `gpu-memory`, in MiB. Half of each of 8 GPUs is 4 GPUs, and a queue with a limit of 1 GPU is refused
# where the half is a fraction. Where it is memory, the check before placement counts 0 GPUs, because it
# knows no node, and the check on the node counts the part of a single device: 0.5. The pod is bound, and
# only afterwards its queue is charged with 4 GPUs.
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
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
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
	jobs := []*jobs_fake.TestJobBasic{{RequiredGPUsPerTask: 0.5}, {RequiredGpuMemory: 50}}
	for index, name := range []string{"fraction", "memory"} {
		job := jobs[index]
		job.Name, job.QueueName, job.Priority = "job", "queue", constants.PriorityTrainNumber
		job.Tasks = []*tasks_fake.TestTaskBasic{{State: pod_status.Pending}}
		session := test_utils.BuildSession(test_utils.TestTopologyBasic{
			Name:   name,
			Jobs:   []*jobs_fake.TestJobBasic{job},
			Nodes:  map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 8, GPUMemory: 100}},
			Queues: []test_utils.TestQueueBasic{{Name: "queue", DeservedGPUs: 1, MaxAllowedGPUs: 1}},
			Mocks:  &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{NumberOfCacheBinds: 1}},
		}, gomock.NewController(t))
		for _, task := range session.PodGroupInfos["job"].GetAllPodsMap() {
			task.Pod.Annotations["gpu-fraction-num-devices"] = "8"
			task.ResReq = pod_info.NewTaskInfo(task.Pod).ResReq
		}
		allocate.New().Execute(session)
		for _, task := range session.PodGroupInfos["job"].GetAllPodsMap() {
			fmt.Printf("SEEN half of 8 GPUs as %s: %v, charged %v GPUs\n", name, task.Status, task.AcceptedResource.GetSumGPUs())
		}
	}
}
GO
)
echo "KAI $KAI, a queue with a limit of 1 GPU:"
echo "$seen"
[ "$seen" = "SEEN half of 8 GPUs as fraction: Pending, charged 0 GPUs
SEEN half of 8 GPUs as memory: Binding, charged 4 GPUs" ] || { echo "This has changed." && exit 1; }
