#!/usr/bin/env bash
# Volcano, JobFlow: `patch` and `dependsOn.probe` are in the definition, and no code reads them.
#
# A flow names a JobTemplate, may patch its spec, and may depend on others by a probe: an HTTP path, a
# TCP port or the phase of a task. The API server takes both fields and keeps them. The controller makes
# the job as the template has it, here in queue `normal` instead of `urgent`, and starts what follows
# when the job before has completed. A client that waits for the port of a server never starts, because
# a server does not complete. No event and no status says that a field was left out.
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
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	flow "volcano.sh/apis/pkg/apis/flow/v1alpha1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	_ "volcano.sh/volcano/pkg/controllers/jobflow"
)

func template(name string) *flow.JobTemplate {
	return &flow.JobTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: batch.JobSpec{Queue: "normal"}}
}

func TestFinding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	running := &flow.Probe{TaskStatusList: []flow.TaskStatus{{TaskName: "main", Phase: "Running"}}}
	jobFlow := &flow.JobFlow{ObjectMeta: metav1.ObjectMeta{Name: "f", Namespace: "ns"}, Spec: flow.JobFlowSpec{Flows: []flow.Flow{
		{Name: "server", Patch: &flow.Patch{JobSpec: batch.JobSpec{Queue: "urgent"}}},
		{Name: "client", DependsOn: &flow.DependsOn{Targets: []string{"server"}, Probe: running}},
	}}}
	kube, volcano := fake.NewSimpleClientset(), vcfake.NewSimpleClientset(template("server"), template("client"), jobFlow)
	start(ctx, t, "jobflow-controller", kube, volcano)
	jobs := volcano.BatchV1alpha1().Jobs("ns")
	settle := func(when string, phase batch.JobPhase) {
		server := &batch.Job{}
		for err := error(context.Canceled); err != nil && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			server, err = jobs.Get(ctx, "f-server", metav1.GetOptions{})
		}
		server.ResourceVersion += "1" // as a server writes it
		server.Status.State.Phase = phase
		server.Status.TaskStatusCount = map[string]batch.TaskState{"main": {Phase: map[v1.PodPhase]int32{"Running": 1}}}
		if _, err := jobs.UpdateStatus(ctx, server, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		all, _ := jobs.List(ctx, metav1.ListOptions{})
		names := []string{}
		for _, job := range all.Items {
			names = append(names, job.Name+" in "+job.Spec.Queue)
		}
		fmt.Println("SEEN server", when+":", strings.Join(names, ", "))
	}
	settle("runs", batch.Running)
	settle("has completed", batch.Completed)
}
GO
)
echo "Volcano $VOLCANO, a server patched into queue urgent, and a client that waits until the server runs:"
echo "$seen"
[ "$seen" = "SEEN server runs: f-server in normal
SEEN server has completed: f-client in normal, f-server in normal" ] || { echo "This has changed." && exit 1; }
