#!/usr/bin/env bash
# Volcano, CronJob: a job that a policy aborted stops the schedule, and one that a policy terminated is kept for ever.
#
# A job's policies say how it ends when a pod fails: AbortJob evicts all pods and makes no new ones,
# TerminateJob does so for good. With `concurrencyPolicy: Forbid` a run is left out while the one before
# "is already running". A job in phase Aborted counts as running, although it has no pods: the schedule
# stops until somebody resumes or deletes that job. A job in phase Terminated counts as finished, but
# neither as successful nor as failed, so that no history limit removes it.
#
# Each CronJob here has three jobs that ended, a limit of 1 for failed ones, and a run that is due.
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	_ "volcano.sh/volcano/pkg/controllers/cronjob"
)

var phases = []batch.JobPhase{batch.Failed, batch.Terminated, batch.Aborted}

// schedule is a CronJob whose three runs so far ended in a phase; the last one is still in its status.
func schedule(phase batch.JobPhase) []runtime.Object {
	start := time.Now().Add(-24 * time.Hour)
	last := metav1.NewTime(time.Now().Add(-90 * time.Minute))
	limit := int32(1)
	cron := &batch.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: string(phase), Namespace: "ns", UID: types.UID(phase), CreationTimestamp: metav1.NewTime(start)},
		Spec: batch.CronJobSpec{
			Schedule: "0 * * * *", ConcurrencyPolicy: batch.ForbidConcurrent,
			SuccessfulJobsHistoryLimit: &limit, FailedJobsHistoryLimit: &limit,
		},
		Status: batch.CronJobStatus{LastScheduleTime: &last},
	}
	objects := []runtime.Object{cron}
	for run := range 3 {
		job := &batch.Job{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", phase, run), Namespace: "ns", UID: types.UID(fmt.Sprint(phase, run)),
				CreationTimestamp: metav1.NewTime(start.Add(time.Duration(run) * time.Hour)),
				OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(cron, batch.SchemeGroupVersion.WithKind("CronJob"))},
			},
			Status: batch.JobStatus{State: batch.JobState{Phase: phase}},
		}
		objects = append(objects, job)
		cron.Status.Active = []v1.ObjectReference{{Name: job.Name, Namespace: "ns", UID: job.UID}}
	}
	return objects
}

func TestFinding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	objects := []runtime.Object{}
	for _, phase := range phases {
		objects = append(objects, schedule(phase)...)
	}
	kube, volcano := fake.NewSimpleClientset(), vcfake.NewSimpleClientset(objects...)
	start(ctx, t, "cronjob-controller", kube, volcano)
	for _, phase := range phases {
		answer := decision(ctx, t, kube, phase)
		jobs, err := volcano.BatchV1alpha1().Jobs("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, job := range jobs.Items {
			if job.Status.State.Phase == phase {
				left++
			}
		}
		fmt.Printf("SEEN 3 jobs %s, limit 1: %d left, %s\n", phase, left, answer)
	}
}

// decision is the reason of the event with which the controller says what it did about the run that is due.
func decision(ctx context.Context, t *testing.T, kube *fake.Clientset, phase batch.JobPhase) string {
	for ctx.Err() == nil {
		events, err := kube.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == string(phase) && (event.Reason == "SuccessfulCreate" || event.Reason == "ForbidConcurrent") {
				return event.Reason
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no decision about ", phase)
	return ""
}
GO
)
echo "Volcano $VOLCANO, by the phase in which the jobs ended, and what became of the run that was due:"
echo "$seen"
[ "$seen" = "SEEN 3 jobs Failed, limit 1: 1 left, SuccessfulCreate
SEEN 3 jobs Terminated, limit 1: 3 left, SuccessfulCreate
SEEN 3 jobs Aborted, limit 1: 3 left, ForbidConcurrent" ] || { echo "This has changed." && exit 1; }
