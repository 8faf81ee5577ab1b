# Sourced. `volcano_test FOLDER < TEST` runs a Go test against Volcano's own packages, by its own
# test helper; the test file begins with `package finding`, and has `placed`, `tasks`, `node` and `pod`
# below. `volcano_controller_test FOLDER < TEST` does so for one of Volcano's controllers, by `start`.
VOLCANO=v1.14.1
VOLCANO_APIS=v1.14.0

volcano_test() {
  mkdir -p "$1"
  cat >"$1/finding_test.go"
  cat >"$1/world_test.go" <<'GO'
package finding

import (
	"sort"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestMain(m *testing.M) { options.Default(); m.Run() }

// placed runs allocate once with gang and one more plugin: pod name -> node name.
func placed(name string, builder framework.PluginBuilder, arguments framework.Arguments,
	queue *v1beta1.Queue, nodes []*v1.Node, pods ...*v1.Pod) map[string]string {
	yes := true
	world := &uthelper.TestCommonStruct{
		Plugins:   map[string]framework.PluginBuilder{gang.PluginName: gang.New, name: builder},
		PodGroups: []*v1beta1.PodGroup{util.BuildPodGroup("job", "ns", "q", 1, nil, v1beta1.PodGroupInqueue)},
		Queues:    []*v1beta1.Queue{queue}, Nodes: nodes, Pods: pods,
	}
	session := world.RegisterSession([]conf.Tier{{Plugins: []conf.PluginOption{
		{Name: gang.PluginName, EnabledJobReady: &yes, EnabledJobPipelined: &yes},
		{Name: name, EnabledPredicate: &yes, EnabledNodeOrder: &yes, Arguments: arguments},
	}}}, nil)
	world.Run([]framework.Action{allocate.New()})
	bound := map[string]string{}
	for _, job := range session.Jobs {
		for _, status := range []api.TaskStatus{api.Binding, api.Bound, api.Allocated} {
			for _, task := range job.TaskStatusIndex[status] {
				bound[task.Name] = task.NodeName
			}
		}
	}
	world.Close()
	return bound
}

// tasks are the sorted names of a session's pods that have this status.
func tasks(session *framework.Session, status api.TaskStatus) []string {
	names := []string{}
	for _, job := range session.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			names = append(names, task.Name)
		}
	}
	sort.Strings(names)
	return names
}

func node(name string, labels map[string]string) *v1.Node {
	return util.BuildNode(name, api.BuildResourceList("8", "8Gi", api.ScalarResource{Name: "pods", Value: "10"}), labels)
}

func pod(name string) *v1.Pod {
	return util.BuildPod("ns", name, "", v1.PodPending, api.BuildResourceList("1", "1Gi"), "job", map[string]string{}, map[string]string{})
}
GO
  volcano_run "$1"
}

volcano_controller_test() {
  mkdir -p "$1"
  cat >"$1/finding_test.go"
  cat >"$1/controller_test.go" <<'GO'
package finding

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/controllers/framework"
)

// start runs one controller, whose package the test imports, over the objects of two clients in memory.
func start(ctx context.Context, t *testing.T, name string, kube *fake.Clientset, volcano *vcfake.Clientset) {
	option := &framework.ControllerOption{KubeClient: kube, VolcanoClient: volcano,
		WorkerNum: 1, CronJobWorkerNum: 1, MaxRequeueNum: -1,
		SharedInformerFactory:   informers.NewSharedInformerFactory(kube, 0),
		VCSharedInformerFactory: vcinformers.NewSharedInformerFactory(volcano, 0)}
	framework.ForeachController(func(controller framework.Controller) {
		if controller.Name() == name {
			if err := controller.Initialize(option); err != nil {
				t.Fatal(err)
			}
			go controller.Run(ctx.Done())
		}
	})
}
GO
  volcano_run "$1"
}

volcano_run() {
  (
    cd "$1"
    export GOFLAGS=-mod=mod
    go mod init finding >/dev/null 2>&1
    its_own=$(go mod download -json "volcano.sh/volcano@$VOLCANO" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    {
      printf 'require (\n\tvolcano.sh/volcano %s\n\tvolcano.sh/apis %s\n)\n' "$VOLCANO" "$VOLCANO_APIS"
      sed -n '/^replace (/,/^)/p' "$its_own" | grep -v staging
    } >>go.mod
    go test -vet=off -count=1 -run TestFinding -v . 2>"$1/stderr" | grep '^SEEN' || { tail -20 "$1/stderr" >&2 && return 1; }
  )
}
