package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	enginev2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	enginev2alpha2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/eviction_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"quadrant.dev/oracle/protocol"
)

type cluster struct {
	Nodes           []*v1.Node                    `json:"nodes"`
	Pods            []*v1.Pod                     `json:"pods"`
	PodGroups       []*enginev2alpha2.PodGroup    `json:"podGroups"`
	Queues          []*enginev2.Queue             `json:"queues"`
	PriorityClasses []*schedulingv1.PriorityClass `json:"priorityClasses"`
}

// policy is the part of a policy that the scenarios vary; the plugins are those of KAI's default.
type policy struct {
	Dialect string `json:"dialect"`
	Actions string `json:"actions"`
}

var (
	// running guards what KAI keeps for the whole process: its logger and its server of plugins.
	running sync.Mutex
	// quiet sets the logger up after the program's output was redirected.
	quiet = sync.OnceValue(func() error { return log.InitLoggers(0) })
)

// run reads the scenario anew, because a session changes its objects, and runs each action once.
func run(scenario protocol.Scenario) (protocol.Outcome, error) {
	outcome := protocol.Empty()
	var objects cluster
	var written policy
	if err := errors.Join(
		strict(scenario.Cluster, &objects), strict(scenario.Policy, &written), quiet(),
	); err != nil {
		return outcome, err
	}
	config, err := conf_util.GetDefaultSchedulerConf()
	if err != nil {
		return outcome, err
	}
	config.Actions = written.Actions
	actions, err := conf_util.GetActionsFromConfig(config)
	if err != nil {
		return outcome, err
	}
	stop := make(chan struct{})
	defer close(stop)
	view := &recorder{Cache: open(objects, stop), evicted: map[string]bool{}}
	running.Lock()
	defer running.Unlock()
	session, err := framework.OpenSession(view, config, &parameters, "oracle", http.NewServeMux())
	if err != nil {
		return outcome, err
	}
	for _, action := range actions {
		action.Execute(session)
	}
	for _, group := range session.PodGroupInfos {
		for _, task := range group.GetAllPodsMap() {
			key := task.Namespace + "/" + task.Name
			switch task.Status {
			case pod_status.Binding:
				outcome.Binds[key] = task.NodeName
			case pod_status.Pipelined:
				outcome.Pipelined[key] = task.NodeName
			}
		}
	}
	for key := range view.evicted {
		outcome.Evicted = append(outcome.Evicted, key)
	}
	sort.Strings(outcome.Evicted)
	framework.CloseSession(session)
	return outcome, nil
}

func strict(text json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("scenario: %w", err)
	}
	return nil
}

// parameters are the defaults of KAI's command line.
var parameters = conf.SchedulerParams{
	SchedulerName:                    "kai-scheduler",
	PartitionParams:                  &conf.SchedulingNodePoolParams{},
	MaxNumberConsolidationPreemptees: 16,
	UseSchedulingSignatures:          true,
	FullHierarchyFairness:            true,
	AllowConsolidatingReclaim:        true,
	NumOfStatusRecordingWorkers:      1,
}

// open is the cache of KAI's scheduler, which has read all objects.
func open(objects cluster, stop chan struct{}) cache.Cache {
	var core, own []runtime.Object
	for _, item := range objects.Nodes {
		core = append(core, item)
	}
	for _, item := range objects.Pods {
		core = append(core, item)
	}
	for _, item := range objects.PriorityClasses {
		core = append(core, item)
	}
	for _, item := range objects.Queues {
		own = append(own, item)
	}
	for _, item := range objects.PodGroups {
		own = append(own, item)
	}
	client := fake.NewSimpleClientset(core...)
	view := cache.New(&cache.SchedulerCacheParams{
		KubeClient:                  client,
		KAISchedulerClient:          kaifake.NewSimpleClientset(own...),
		SchedulerName:               parameters.SchedulerName,
		NodePoolParams:              parameters.PartitionParams,
		FullHierarchyFairness:       parameters.FullHierarchyFairness,
		AllowConsolidatingReclaim:   parameters.AllowConsolidatingReclaim,
		NumOfStatusRecordingWorkers: parameters.NumOfStatusRecordingWorkers,
		DiscoveryClient:             client.Discovery(),
	})
	view.Run(stop)
	view.WaitForCacheSync(stop)
	return view
}

// recorder keeps what a session decides, in place of sending it to the API server.
type recorder struct {
	cache.Cache
	evicted map[string]bool
}

func (r *recorder) Bind(*pod_info.PodInfo, string, map[string]string) error { return nil }

func (r *recorder) Evict(
	pod *v1.Pod, _ *podgroup_info.PodGroupInfo, _ eviction_info.EvictionMetadata, _ string,
) error {
	r.evicted[pod.Namespace+"/"+pod.Name] = true
	return nil
}

func (r *recorder) RecordJobStatusEvent(*podgroup_info.PodGroupInfo) error { return nil }

func (r *recorder) TaskPipelined(*pod_info.PodInfo, string) {}
