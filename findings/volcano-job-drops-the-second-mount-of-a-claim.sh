#!/usr/bin/env bash
# Volcano, controller of vcjobs: the second mount path of one volume claim is left out, without a word.
#
# `spec.volumes` of a Job lists mount paths with a claim for each. Volcano's webhook checks that no mount
# path occurs twice, and accepts one claim under two paths, such as /in and /out. The controller takes
# each claim once: pods get the first path alone, and no event or condition says so. The program writes
# its results to a folder of the container instead of the volume, and they are gone when the pod ends.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(volcano_controller_test "$work/m" <<'GO'
package finding

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	_ "volcano.sh/volcano/pkg/controllers/job"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "ns", UID: "1", ResourceVersion: "1"}, Spec: batch.JobSpec{
		MinAvailable: 1, Queue: "q", SchedulerName: "volcano",
		Volumes: []batch.VolumeSpec{
			{MountPath: "/in", VolumeClaimName: "data"}, {MountPath: "/out", VolumeClaimName: "data"},
		},
		Tasks: []batch.TaskSpec{{Name: "task", Replicas: 1, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: "task"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
		}}},
	}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "ns"}}
	kube, volcano := fake.NewSimpleClientset(claim), vcfake.NewSimpleClientset(job, util.BuildQueue("q", 1, nil))
	start(ctx, t, "job-controller", kube, volcano)
	groups := volcano.SchedulingV1beta1().PodGroups("ns")
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		if group, err := groups.Get(ctx, "job-1", metav1.GetOptions{}); err == nil && group.Status.Phase != v1beta1.PodGroupInqueue {
			group.Status.Phase = v1beta1.PodGroupInqueue // as the scheduler writes it
			groups.UpdateStatus(ctx, group, metav1.UpdateOptions{})
		}
		pods, _ := kube.CoreV1().Pods("ns").List(ctx, metav1.ListOptions{})
		for _, pod := range pods.Items {
			for _, mount := range pod.Spec.Containers[0].VolumeMounts {
				fmt.Println("SEEN", pod.Name, "mounts", mount.MountPath)
			}
			return
		}
	}
	t.Fatal("no pod")
}
GO
)
echo "Volcano $VOLCANO, a job that mounts the claim data at /in and at /out:"
echo "$seen"
[ "$seen" = "SEEN job-task-0 mounts /in" ] || { echo "This has changed." && exit 1; }
