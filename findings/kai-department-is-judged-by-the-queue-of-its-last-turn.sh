#!/usr/bin/env bash
# KAI, order of departments: a department is compared by the queue that had its last turn.
#
# Whose turn is next is asked twice: which department, then which of its queues. Departments are compared by the next
# job of their best queue. But this is done before the queues of the department that had the last turn are put in
# order again, so it stands for itself with the next job of the queue that was just served, even where another of its
# queues will have the turn. With two departments this one comparison decides. So a job that cannot start costs a
# colleague in another queue the turn: without it the colleague's GPU is given out first, and with it, the GPUs go to
# the other department, although the colleague's share is the smaller one.
#
# A node of 4 GPUs. Department one has the queues old and young, department two has one; all quotas are beyond 4.
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
	jobs := func(more ...*jobs_fake.TestJobBasic) []*jobs_fake.TestJobBasic {
		return append([]*jobs_fake.TestJobBasic{job("first", "old", 1), job("colleague", "young", 1), job("other", "two-queue", 3)}, more...)
	}
	fmt.Println("SEEN nothing else waits:", started(t, jobs()...))
	fmt.Println("SEEN a job of 8 GPUs waits behind first:", started(t, jobs(job("eight", "old", 8))...))
}

func job(name, queue string, gpus float64) *jobs_fake.TestJobBasic {
	return &jobs_fake.TestJobBasic{Name: name, QueueName: queue, RequiredGPUsPerTask: gpus,
		Priority: constants.PriorityTrainNumber, Tasks: []*tasks_fake.TestTaskBasic{{State: pod_status.Pending}}}
}

// started are the jobs that get their GPUs in one cycle.
func started(t *testing.T, jobs ...*jobs_fake.TestJobBasic) []string {
	session := test_utils.BuildSession(test_utils.TestTopologyBasic{
		Name:  "departments",
		Jobs:  jobs,
		Nodes: map[string]nodes_fake.TestNodeBasic{"node": {GPUs: 4}},
		Queues: []test_utils.TestQueueBasic{
			{Name: "old", ParentQueue: "one", DeservedGPUs: 8},
			{Name: "young", ParentQueue: "one", DeservedGPUs: 8},
			{Name: "two-queue", ParentQueue: "two", DeservedGPUs: 8}},
		Departments: []test_utils.TestDepartmentBasic{
			{Name: "one", DeservedGPUs: 16}, {Name: "two", DeservedGPUs: 16}},
		Mocks: &test_utils.TestMock{CacheRequirements: &test_utils.CacheMocking{NumberOfCacheBinds: 2}},
	}, gomock.NewController(t))
	allocate.New().Execute(session)
	names := []string{}
	for name, group := range session.PodGroupInfos {
		if group.GetNumAllocatedTasks() > 0 {
			names = append(names, string(name))
		}
	}
	sort.Strings(names)
	return names
}
GO
)
echo "KAI $KAI, jobs that get GPUs, of first (1 GPU, queue old), colleague (1, young) and other (3, department two):"
echo "$seen"
[ "$seen" = "SEEN nothing else waits: [colleague first]
SEEN a job of 8 GPUs waits behind first: [first other]" ] || { echo "This has changed." && exit 1; }
