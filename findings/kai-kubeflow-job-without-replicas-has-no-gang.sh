#!/usr/bin/env bash
# KAI, pod grouper for Kubeflow jobs: a role without `replicas` is none to KAI, and one pod to Kubeflow.
#
# The definition of PyTorchJob says of `replicas`: "If unspecified, defaults to 1". Kubeflow's training
# operator fills the number in for itself, each time that it reads the job, and does not write it back. So
# it makes the master and its workers, and KAI, which reads the stored job, ends with an error that the
# job asks for 0 masters. It makes no PodGroup for any pod of the job, and all of them stay Pending. The
# same holds for the other kinds, of which KAI reads the number in the same way.
# The defaults here are set by the operator's own function.
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
	"github.com/NVIDIA/KAI-scheduler/pkg/podgrouper/podgrouper/plugins/kubeflow"
	"github.com/NVIDIA/KAI-scheduler/pkg/podgrouper/podgrouper/plugins/kubeflow/pytorch"
	training "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestFinding(t *testing.T) {
	grouper := pytorch.NewPyTorchGrouper(kubeflow.NewKubeflowDistributedGrouper(defaultgrouper.NewDefaultGrouper("queue", "pool", nil)))
	for _, masters := range []*int32{ptr.To(int32(1)), nil} {
		template := v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "pytorch"}}}}
		job := &training.PyTorchJob{Spec: training.PyTorchJobSpec{PyTorchReplicaSpecs: map[training.ReplicaType]*training.ReplicaSpec{
			training.PyTorchJobReplicaTypeMaster: {Replicas: masters, Template: template},
			training.PyTorchJobReplicaTypeWorker: {Replicas: ptr.To(int32(3)), Template: template},
		}}}
		job.Name = "job"
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
		if err != nil {
			t.Fatal(err)
		}
		training.SetDefaults_PyTorchJob(job)
		pods := int32(0)
		for _, role := range job.Spec.PyTorchReplicaSpecs {
			pods += *role.Replicas
		}
		written := "not given"
		if masters != nil {
			written = fmt.Sprint(*masters)
		}
		fmt.Printf("SEEN masters %s: Kubeflow makes %d pods, KAI ", written, pods)
		group, err := grouper.GetPodGroupMetadata(&unstructured.Unstructured{Object: object}, &v1.Pod{})
		if err != nil {
			fmt.Println("makes no PodGroup:", err)
		} else {
			fmt.Println("waits for", group.MinAvailable)
		}
	}
}
GO
)
echo "KAI $KAI with Kubeflow's training operator, as KAI's module names it; 3 workers:"
echo "$seen"
[ "$seen" = "SEEN masters 1: Kubeflow makes 4 pods, KAI waits for 4
SEEN masters not given: Kubeflow makes 4 pods, KAI makes no PodGroup: the type of the job job doesn't allow for 0 Master pods. Please fix the replica field" ] || { echo "This has changed." && exit 1; }
