#!/usr/bin/env bash
# KAI, scheduler: nothing says why a pod waits whose queue does not exist.
#
# A pod names its queue by a label, and the pod grouper copies the name into a PodGroup whether there is such a queue or
# not. The scheduler leaves that PodGroup out before the cycle begins, with a line of its log at verbosity 7. So the
# pod of a mistyped queue is Pending without an event and without a condition, and so is its PodGroup, while the same
# pod in a queue that exists has them with the reason.
#
# One cycle of the scheduler with its default configuration, over a node of 4 cores; two pods ask for 8.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kai.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kai_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	queues "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	groups "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestFinding(t *testing.T) {
	_ = log.InitLoggers(0)
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()
	cores := func(n string) v1.ResourceList {
		return v1.ResourceList{"cpu": resource.MustParse(n), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("9")}
	}
	kube := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status: v1.NodeStatus{Allocatable: cores("4"), Capacity: cores("4"),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}})
	kai := kaifake.NewSimpleClientset()
	free := queues.QueueResource{Quota: -1, Limit: -1, OverQuotaWeight: 1}
	for name, parent := range map[string]string{"department": "", "team": "department"} {
		_, err := kai.SchedulingV2().Queues("").Create(t.Context(), &queues.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: queues.QueueSpec{ParentQueue: parent, Resources: &queues.QueueResources{GPU: free, CPU: free, Memory: free}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []string{"team", "taem"} {
		meta := metav1.ObjectMeta{Name: queue, Namespace: "ns", UID: types.UID(queue), Labels: map[string]string{"kai.scheduler/queue": queue},
			Annotations: map[string]string{constants.PodGroupAnnotationForPod: queue}}
		_, err := kai.SchedulingV2alpha2().PodGroups("ns").Create(t.Context(), &groups.PodGroup{ObjectMeta: meta,
			Spec: groups.PodGroupSpec{MinMember: 1, Queue: queue}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = kube.CoreV1().Pods("ns").Create(t.Context(), &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{SchedulerName: "kai-scheduler",
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("8")}}}}},
			Status: v1.PodStatus{Phase: v1.PodPending}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	params := &conf.SchedulerParams{SchedulerName: "kai-scheduler", PartitionParams: &conf.SchedulingNodePoolParams{},
		NumOfStatusRecordingWorkers: 2, FullHierarchyFairness: true}
	its := cache.New(&cache.SchedulerCacheParams{SchedulerName: params.SchedulerName, NodePoolParams: params.PartitionParams,
		KubeClient: kube, KAISchedulerClient: kai, FullHierarchyFairness: true, NumOfStatusRecordingWorkers: 2, DiscoveryClient: kube.Discovery()})
	its.Run(t.Context().Done())
	its.WaitForCacheSync(t.Context().Done())
	config, err := conf_util.GetDefaultSchedulerConf()
	if err != nil {
		t.Fatal(err)
	}
	session, err := framework.OpenSession(its, config, params, "cycle", http.NewServeMux())
	if err != nil {
		t.Fatal(err)
	}
	chosen, _ := conf_util.GetActionsFromConfig(config)
	for _, action := range chosen {
		action.Execute(session)
	}
	framework.CloseSession(session)
	events := &v1.EventList{}
	for range 60 { // Events and conditions are written beside the cycle.
		time.Sleep(2 * time.Second)
		events, _ = kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		group, _ := kai.SchedulingV2alpha2().PodGroups("ns").Get(t.Context(), "team", metav1.GetOptions{})
		pod, _ := kube.CoreV1().Pods("ns").Get(t.Context(), "team", metav1.GetOptions{})
		if len(events.Items) > 1 && len(pod.Status.Conditions) > 0 && len(group.Status.SchedulingConditions) > 0 {
			break
		}
	}
	for _, queue := range []string{"team", "taem"} {
		count := map[string]int{}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == queue {
				count[event.InvolvedObject.Kind]++
			}
		}
		pod, _ := kube.CoreV1().Pods("ns").Get(t.Context(), queue, metav1.GetOptions{})
		group, _ := kai.SchedulingV2alpha2().PodGroups("ns").Get(t.Context(), queue, metav1.GetOptions{})
		fmt.Printf("SEEN queue %s: pod %s with %d conditions and %d events, its group with %d conditions and %d events\n", queue, pod.Status.Phase,
			len(pod.Status.Conditions), count["Pod"], len(group.Status.SchedulingConditions), count["PodGroup"])
	}
}
GO
)
echo "KAI $KAI, a pod that fits nowhere, in the queue team, and one in a queue that nobody made:"
echo "$seen"
[ "$seen" = "SEEN queue team: pod Pending with 1 conditions and 1 events, its group with 1 conditions and 1 events
SEEN queue taem: pod Pending with 0 conditions and 0 events, its group with 0 conditions and 0 events" ] || {
  echo "This has changed." && exit 1
}
