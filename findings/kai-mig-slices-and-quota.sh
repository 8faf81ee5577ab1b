#!/usr/bin/env bash
# KAI, plugin proportion: one MIG GPU counts as 7 GPUs of a queue, or as none, by how it is cut.
#
# A queue's quota, limit and fair share are in GPUs. KAI charges a MIG slice with the number before its
# `g`: `nvidia.com/mig-7g.40gb`, one whole A100, is 7 GPUs, and a seventh of it is 1 GPU. A queue with a
# limit of 4 GPUs may not run one pod with one such device.
# The device plugin's name for the slice with the media engines, `nvidia.com/mig-1g.10gb.me`, is not
# parsed: it is charged nothing, so that no limit ever holds it back.
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

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins/proportion/capacity_policy"
	rs "github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins/proportion/resource_share"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestFinding(t *testing.T) {
	if err := log.InitLoggers(0); err != nil {
		t.Fatal(err)
	}
	unlimited := rs.ResourceShare{MaxAllowed: -1, Deserved: -1}
	policy := capacity_policy.New(map[common_info.QueueID]*rs.QueueAttributes{"team": {
		UID: "team", Name: "team", QueueResourceShare: rs.QueueResourceShare{
			CPU: unlimited, Memory: unlimited, GPU: rs.ResourceShare{MaxAllowed: 4, Deserved: 4},
		},
	}})
	job := podgroup_info.NewPodGroupInfo("job")
	job.Queue = "team"
	for _, device := range []v1.ResourceName{"nvidia.com/gpu", "nvidia.com/mig-7g.40gb", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me"} {
		for _, count := range []string{"1", "8"} {
			requests := v1.ResourceList{device: resource.MustParse(count)}
			task := pod_info.NewTaskInfo(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
				{Resources: v1.ResourceRequirements{Requests: requests, Limits: requests}}}}})
			verdict := policy.IsJobOverQueueCapacity(job, []*pod_info.PodInfo{task})
			fmt.Printf("SEEN %s of %s: %v GPUs, allowed: %v\n", count, device, task.ResReq.GetSumGPUs(), verdict.IsSchedulable)
		}
	}
}
GO
)
echo "KAI $KAI, a queue with a limit of 4 GPUs:"
echo "$seen"
[ "$seen" = "SEEN 1 of nvidia.com/gpu: 1 GPUs, allowed: true
SEEN 8 of nvidia.com/gpu: 8 GPUs, allowed: false
SEEN 1 of nvidia.com/mig-7g.40gb: 7 GPUs, allowed: false
SEEN 8 of nvidia.com/mig-7g.40gb: 56 GPUs, allowed: false
SEEN 1 of nvidia.com/mig-1g.10gb: 1 GPUs, allowed: true
SEEN 8 of nvidia.com/mig-1g.10gb: 8 GPUs, allowed: false
SEEN 1 of nvidia.com/mig-1g.10gb.me: 0 GPUs, allowed: true
SEEN 8 of nvidia.com/mig-1g.10gb.me: 0 GPUs, allowed: true" ] || { echo "This has changed." && exit 1; }
