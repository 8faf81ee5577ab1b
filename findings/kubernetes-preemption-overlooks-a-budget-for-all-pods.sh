#!/usr/bin/env bash
# kube-scheduler, preemption: a PodDisruptionBudget with `selector: {}` does not count.
#
# In policy/v1 an empty selector takes all pods of the namespace, and the controller and the eviction API
# treat it so: `kubectl drain` is refused. Preemption follows the rule of the version before, in which an
# empty selector takes none. Victims of such a namespace count as protected by nobody, so that the
# scheduler prefers them to pods that a budget with labels protects, and evicts them without need. The
# budget here allows no disruption; the first column is what client-go's lister says about the pod.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kubernetes.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kubernetes_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

func TestFinding(t *testing.T) {
	metrics.Register()
	for _, labels := range []map[string]string{{"app": "x"}, {}} {
		budget := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "budget", Namespace: "ns"},
			Spec: policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
		size := map[v1.ResourceName]string{v1.ResourceCPU: "4"}
		victim := st.MakePod().Namespace("ns").Name("victim").UID("1").Label("app", "x").Node("n").Priority(1).Req(size).Obj()
		preemptor := st.MakePod().Namespace("ns").Name("preemptor").UID("2").Priority(2).Req(size).Obj()
		node := st.MakeNode().Name("n").Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "4", v1.ResourcePods: "9"}).Obj()

		ctx := t.Context()
		client := fake.NewClientset()
		factory := informers.NewSharedInformerFactory(client, 0)
		budgets := factory.Policy().V1().PodDisruptionBudgets()
		budgets.Informer().GetStore().Add(budget)
		of, err := budgets.Lister().GetPodPodDisruptionBudgets(victim)
		if err != nil {
			t.Fatal(err)
		}
		snapshot := cache.NewSnapshot([]*v1.Pod{victim}, []*v1.Node{node})
		fh, err := tf.NewFramework(ctx, []tf.RegisterPluginFunc{
			tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
			tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
			tf.RegisterPluginAsExtensions(noderesources.Name, runtime.FactoryAdapter(feature.Features{}, noderesources.NewFit), "Filter", "PreFilter"),
		}, "", runtime.WithClientSet(client), runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(snapshot),
			runtime.WithPodNominator(queue.NewSchedulingQueue(nil, factory)))
		if err != nil {
			t.Fatal(err)
		}
		arguments := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
		preemption, err := defaultpreemption.New(ctx, arguments, fh, feature.Features{})
		if err != nil {
			t.Fatal(err)
		}
		state := framework.NewCycleState()
		if _, status, _ := fh.RunPreFilterPlugins(ctx, state, preemptor); !status.IsSuccess() {
			t.Fatal(status)
		}
		info, err := snapshot.NodeInfos().Get("n")
		if err != nil {
			t.Fatal(err)
		}
		victims, violations, _ := preemption.SelectVictimsOnNode(ctx, state, preemptor, info, []*policy.PodDisruptionBudget{budget})
		fmt.Printf("SEEN selector %v: budgets of the pod %d, victims %d, budgets violated %d\n", labels, len(of), len(victims), violations)
	}
}
GO
)
echo "Kubernetes $KUBERNETES:"
echo "$seen"
[ "$seen" = "SEEN selector map[app:x]: budgets of the pod 1, victims 1, budgets violated 1
SEEN selector map[]: budgets of the pod 1, victims 1, budgets violated 0" ] || { echo "This has changed." && exit 1; }
