#!/usr/bin/env bash
# Volcano, job controller and plugin proportion: a job is kept out of its queue by its own running pod.
#
# `RestartPod` reads as if one pod ended and came again. The controller deletes the PodGroup of the whole
# job with it, and creates it anew without a phase. Until that one is admitted the missing pod is not
# created. The scheduler judges the new PodGroup as that of a new job: what the queue has allocated and
# the minimum of the job together have to be within the capability of the queue. The pods that go on
# running are in both. So a job of two pods in a queue of two CPUs is refused, in this session and in each
# one after it, and stays Restarting with one pod. A queue with room for one pod more admits it.
# Whether a job of a real cluster comes to this depends on what its controller hears first, that the pod
# is gone or that the PodGroup is: sometimes the pod is created before the controller knows of the latter.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

restarted=$(volcano_controller_test "$work/controller" <<'GO'
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
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "ns", UID: "1", ResourceVersion: "1"}, Spec: batch.JobSpec{
		MinAvailable: 2, Queue: "q", SchedulerName: "volcano", MaxRetry: 3,
		Policies: []batch.LifecyclePolicy{{Event: bus.PodFailedEvent, Action: bus.RestartPodAction}},
		Tasks: []batch.TaskSpec{{Name: "task", Replicas: 2, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: "task"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
		}}},
	}}
	kube, volcano := fake.NewSimpleClientset(), vcfake.NewSimpleClientset(job, util.BuildQueue("q", 1, nil))
	start(ctx, t, "job-controller", kube, volcano)
	groups, jobs, pods := volcano.SchedulingV1beta1().PodGroups("ns"), volcano.BatchV1alpha1().Jobs("ns"), kube.CoreV1().Pods("ns")
	until := func(holds func() bool) {
		for !holds() {
			if ctx.Err() != nil {
				t.Fatal("it does not come to that")
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	phase := func() batch.JobPhase {
		now, _ := jobs.Get(ctx, "job", metav1.GetOptions{})
		return now.Status.State.Phase
	}
	admit := func(phase v1beta1.PodGroupPhase) { // as the scheduler writes it
		group, _ := groups.Get(ctx, "job-1", metav1.GetOptions{})
		group.Status.Phase = phase
		groups.UpdateStatus(ctx, group, metav1.UpdateOptions{})
	}
	number := func() int {
		list, _ := pods.List(ctx, metav1.ListOptions{})
		return len(list.Items)
	}
	move := func(name, version string, phase v1.PodPhase) { // as the kubelet writes it
		pod, _ := pods.Get(ctx, name, metav1.GetOptions{})
		pod.Status.Phase, pod.ResourceVersion = phase, version
		pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	until(func() bool { _, err := groups.Get(ctx, "job-1", metav1.GetOptions{}); return err == nil })
	admit(v1beta1.PodGroupInqueue)
	until(func() bool { return number() == 2 })
	move("job-task-0", "2", v1.PodRunning)
	move("job-task-1", "2", v1.PodRunning)
	admit(v1beta1.PodGroupRunning)
	until(func() bool { return phase() == batch.Running })
	move("job-task-0", "3", v1.PodFailed)
	until(func() bool { return phase() == batch.Restarting })
	time.Sleep(5 * time.Second) // for what else the controller does
	done := []string{}
	for _, action := range volcano.Actions() {
		verb := action.GetVerb()
		if action.GetResource().Resource == "podgroups" && (verb == "create" || verb == "delete") {
			done = append(done, verb)
		}
	}
	group, err := groups.Get(ctx, "job-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("SEEN one of two pods failed: job %s with %d pod; PodGroup %v, its phase is %q\n", phase(), number(), done, group.Status.Phase)
}
GO
)
judged=$(volcano_test "$work/scheduler" <<'GO'
package finding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	show("2")
	show("3")
}

func cpus(number string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(number)}
}

// show judges the PodGroup that the controller created, while one of the job's two pods runs.
func show(capability string) {
	running := util.BuildPod("ns", "job-task-1", "n", v1.PodRunning, api.BuildResourceList("1", "1Gi"), "job", map[string]string{}, map[string]string{})
	world := &uthelper.TestCommonStruct{
		Plugins:   map[string]framework.PluginBuilder{proportion.PluginName: proportion.New},
		PodGroups: []*v1beta1.PodGroup{util.BuildPodGroupWithMinResources("job", "ns", "q", 2, nil, cpus("2"), "")},
		Queues:    []*v1beta1.Queue{util.BuildQueue("q", 1, cpus(capability))},
		Nodes:     []*v1.Node{node("n", nil)}, Pods: []*v1.Pod{running},
	}
	yes := true
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{
		{Name: proportion.PluginName, EnabledJobEnqueued: &yes},
	}}}, nil)
	defer world.Close()
	world.Run([]framework.Action{enqueue.New()})
	admitted := session.Jobs["ns/job"].PodGroup.Status.Phase == scheduling.PodGroupInqueue
	fmt.Printf("SEEN a queue of %s CPUs, of which the job's other pod has 1: its 2 are admitted: %v\n", capability, admitted)
}
GO
)
seen="$restarted
$judged"
echo "Volcano $VOLCANO, a job of two pods of one CPU each, and RestartPod"
echo "$seen"
[ "$seen" = 'SEEN one of two pods failed: job Restarting with 1 pod; PodGroup [create delete create], its phase is ""
SEEN a queue of 2 CPUs, of which the job'"'"'s other pod has 1: its 2 are admitted: false
SEEN a queue of 3 CPUs, of which the job'"'"'s other pod has 1: its 2 are admitted: true' ] || { echo "This has changed." && exit 1; }
