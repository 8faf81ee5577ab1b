#!/usr/bin/env bash
# KAI, pod grouper for RayCluster: a suspended worker group still belongs to the gang.
#
# KubeRay's field for a worker group that shall have no pods is `suspend`; with its feature gate
# RayJobDeletionPolicy, a RayJob that keeps its head and deletes its workers sets it. KAI leaves suspended
# groups out of a cluster's minimum, but looks for a field `suspended`, which KubeRay does not have. So
# KubeRay makes the head alone, KAI waits for the head and the workers that nobody makes, and a head that
# runs already belongs to a gang below its minimum, which KAI evicts as stale after its grace period.
# The cluster is built with KubeRay's own types here, and its own function says how many workers it wants.
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
	for _, suspend := range []bool{false, true} {
		group := rayv1.WorkerGroupSpec{Replicas: ptr.To[int32](2), MinReplicas: ptr.To[int32](2),
			MaxReplicas: ptr.To[int32](2), NumOfHosts: 1, Suspend: &suspend}
		cluster := &rayv1.RayCluster{Spec: rayv1.RayClusterSpec{WorkerGroupSpecs: []rayv1.WorkerGroupSpec{group}}}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
		if err != nil {
			t.Fatal(err)
		}
		podGroup, err := grouper.GetPodGroupMetadata(&unstructured.Unstructured{Object: object}, &v1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		pods := 1 + utils.GetWorkerGroupDesiredReplicas(t.Context(), group)
		fmt.Printf("SEEN suspend %v: KubeRay makes %d pods, KAI waits for %d\n", suspend, pods, podGroup.MinAvailable)
	}
}
GO
)
echo "KAI $KAI with KubeRay $KUBERAY, a head and one group of two workers:"
echo "$seen"
[ "$seen" = "SEEN suspend false: KubeRay makes 3 pods, KAI waits for 3
SEEN suspend true: KubeRay makes 1 pods, KAI waits for 3" ] || { echo "This has changed." && exit 1; }
