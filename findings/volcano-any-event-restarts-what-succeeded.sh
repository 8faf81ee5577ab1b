#!/usr/bin/env bash
# Volcano, controller of vcjobs: a job that restarts at any event restarts because it has succeeded.
#
# The policy `event: "*", action: RestartJob` is in the design of Volcano's Job, and reads as "whatever
# goes wrong, begin anew". The end of a task without a fault is an event, too (TaskCompleted), and the
# asterisk means it as well. A job of one pod that ends with 0 is killed and begins anew, until its
# retries are used up, although no pod of it ever failed. With `event: PodFailed` the same job is
# Completed after one run. Some users see that, and others do not: with several tasks it hangs on
# whether the controller looks at the whole job first, or at the task that ended last.
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
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	_ "volcano.sh/volcano/pkg/controllers/job"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	for _, event := range []bus.Event{bus.PodFailedEvent, bus.AnyEvent} {
		show(t, event)
	}
}

// show runs a job of one pod with the policy, and every pod of it ends without a fault.
func show(t *testing.T, event bus.Event) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "ns", UID: "1", ResourceVersion: "1"}, Spec: batch.JobSpec{
		MinAvailable: 1, Queue: "q", SchedulerName: "volcano", MaxRetry: 3,
		Policies: []batch.LifecyclePolicy{{Event: event, Action: bus.RestartJobAction}},
		Tasks: []batch.TaskSpec{{Name: "task", Replicas: 1, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: "task"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
		}}},
	}}
	kube, volcano := fake.NewSimpleClientset(), vcfake.NewSimpleClientset(job, util.BuildQueue("q", 1, nil))
	start(ctx, t, "job-controller", kube, volcano)
	groups, jobs, pods := volcano.SchedulingV1beta1().PodGroups("ns"), volcano.BatchV1alpha1().Jobs("ns"), kube.CoreV1().Pods("ns")
	after := map[v1.PodPhase]v1.PodPhase{"": v1.PodPending, v1.PodPending: v1.PodRunning, v1.PodRunning: v1.PodSucceeded}
	runs := 0
	for ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		if group, err := groups.Get(ctx, "job-1", metav1.GetOptions{}); err == nil && group.Status.Phase != v1beta1.PodGroupInqueue {
			group.Status.Phase = v1beta1.PodGroupInqueue // as the scheduler writes it
			groups.UpdateStatus(ctx, group, metav1.UpdateOptions{})
		}
		list, _ := pods.List(ctx, metav1.ListOptions{})
		for number := range list.Items {
			pod := &list.Items[number]
			next, runsOn := after[pod.Status.Phase]
			if !runsOn {
				continue
			}
			if next == v1.PodSucceeded {
				runs++
			}
			pod.Status.Phase = next // as the kubelet writes it
			pod.ResourceVersion += "1"
			pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		now, _ := jobs.Get(ctx, "job", metav1.GetOptions{})
		if now.Status.State.Phase == batch.Completed || now.Status.RetryCount == job.Spec.MaxRetry {
			fmt.Printf("SEEN at %q: runs that succeeded %d, restarts %d, then %s\n",
				event, runs, now.Status.RetryCount, now.Status.State.Phase)
			return
		}
	}
	t.Fatal("the job does not end")
}
GO
)
echo "Volcano $VOLCANO, a job of one pod with three retries, which restarts"
echo "$seen"
[ "$seen" = 'SEEN at "PodFailed": runs that succeeded 1, restarts 0, then Completed
SEEN at "*": runs that succeeded 3, restarts 3, then Restarting' ] || { echo "This has changed." && exit 1; }
