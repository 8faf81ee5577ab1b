#!/usr/bin/env bash
# KAI, pod grouper for RayCluster: KubeRay keeps a group's replicas within its limits, KAI does not.
#
# `replicas` of a RayCluster's worker group may lie outside `minReplicas` and `maxReplicas`: KubeRay's
# API server takes it, and its controller makes the nearest number that is allowed. KAI reads the field
# as it stands. Above the maximum (minReplicas 0) the gang is larger than the number of pods that will
# ever exist, so the cluster never starts. Below the minimum, for example with the default of 0, KAI
# makes no PodGroup at all, and the pods that KubeRay makes stay Pending.
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

	"github.com/NVIDIA/KAI-scheduler/pkg/podgrouper/podgrouper/plugins/defaultgrouper"
	"github.com/NVIDIA/KAI-scheduler/pkg/podgrouper/podgrouper/plugins/ray"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestFinding(t *testing.T) {
	grouper := ray.NewRayClusterGrouper(ray.NewRayGrouper(nil, defaultgrouper.NewDefaultGrouper("queue", "pool", nil)))
	for _, replicas := range [][3]int32{{0, 9, 4}, {2, 0, 4}} { // at least, replicas, at most
		group := rayv1.WorkerGroupSpec{MinReplicas: ptr.To(replicas[0]), Replicas: ptr.To(replicas[1]),
			MaxReplicas: ptr.To(replicas[2]), NumOfHosts: 1}
		cluster := &rayv1.RayCluster{Spec: rayv1.RayClusterSpec{WorkerGroupSpecs: []rayv1.WorkerGroupSpec{group}}}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
		if err != nil {
			t.Fatal(err)
		}
		pods := 1 + utils.GetWorkerGroupDesiredReplicas(t.Context(), group)
		fmt.Printf("SEEN %d in %d to %d: KubeRay makes %d pods, KAI ", replicas[1], replicas[0], replicas[2], pods)
		podGroup, err := grouper.GetPodGroupMetadata(&unstructured.Unstructured{Object: object}, &v1.Pod{})
		if err != nil {
			fmt.Println("makes no PodGroup")
		} else {
			fmt.Println("waits for", podGroup.MinAvailable)
		}
	}
}
GO
)
echo "KAI $KAI with KubeRay $KUBERAY, a head and one group of workers:"
echo "$seen"
[ "$seen" = "SEEN 9 in 0 to 4: KubeRay makes 5 pods, KAI waits for 10
SEEN 0 in 2 to 4: KubeRay makes 3 pods, KAI makes no PodGroup" ] || { echo "This has changed." && exit 1; }
