package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"quadrant.dev/oracle/protocol"
	vcv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"
)

type cluster struct {
	Nodes           []*v1.Node                    `json:"nodes"`
	Pods            []*v1.Pod                     `json:"pods"`
	PodGroups       []*vcv1beta1.PodGroup         `json:"podGroups"`
	Queues          []*vcv1beta1.Queue            `json:"queues"`
	PriorityClasses []*schedulingv1.PriorityClass `json:"priorityClasses"`
	HyperNodes      []*topologyv1alpha1.HyperNode `json:"hyperNodes"`
	ResourceQuotas  []*v1.ResourceQuota           `json:"resourceQuotas"`
	PVs             []*v1.PersistentVolume        `json:"pvs"`
	PVCs            []*v1.PersistentVolumeClaim   `json:"pvcs"`
	StorageClasses  []*storagev1.StorageClass     `json:"storageClasses"`
	ResourceClaims  []*resourcev1.ResourceClaim   `json:"resourceClaims"`
	ResourceSlices  []*resourcev1.ResourceSlice   `json:"resourceSlices"`
	DeviceClasses   []*resourcev1.DeviceClass     `json:"deviceClasses"`
}

// running guards what Volcano keeps for the whole process: its actions, and which are enabled.
var running sync.Mutex

// run reads the scenario anew, because a session changes its objects, and runs each action once.
func run(scenario protocol.Scenario) (outcome protocol.Outcome, err error) {
	var objects cluster
	decoder := json.NewDecoder(bytes.NewReader(scenario.Cluster))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&objects); err != nil {
		return outcome, fmt.Errorf("cluster: %w", err)
	}
	actions, tiers, configurations, _, err := scheduler.UnmarshalSchedulerConf(string(scenario.Policy))
	if err != nil {
		return outcome, fmt.Errorf("policy: %w", err)
	}
	stop := make(chan struct{})
	defer close(stop)
	view, err := open(objects, stop)
	if err != nil {
		return outcome, err
	}
	running.Lock()
	defer running.Unlock()
	session := framework.OpenSession(view, tiers, configurations)
	before := map[api.TaskID]api.TaskStatus{}
	for _, job := range session.Jobs {
		for id, task := range job.Tasks {
			before[id] = task.Status
		}
	}
	jobs := slices.Collect(maps.Values(session.Jobs))
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	for _, action := range actions {
		action.Initialize()
		action.Execute(session)
		action.UnInitialize()
	}
	framework.CloseSession(session)
	return outcomeOf(objects.PodGroups, jobs, before), nil
}

func outcomeOf(
	groups []*vcv1beta1.PodGroup, jobs []*api.JobInfo, before map[api.TaskID]api.TaskStatus,
) protocol.Outcome {
	outcome := protocol.Empty()
	for _, group := range groups { // a session leaves out those whose queue does not exist
		outcome.Phases[group.Namespace+"/"+group.Name] = string(group.Status.Phase)
	}
	for _, job := range jobs {
		for id, task := range job.Tasks {
			key := task.Namespace + "/" + task.Name
			switch task.Status {
			case api.Binding:
				outcome.Binds[key] = task.NodeName
			case api.Pipelined:
				outcome.Pipelined[key] = task.NodeName
			case api.Releasing:
				if before[id] != api.Releasing {
					outcome.Evicted = append(outcome.Evicted, key)
				}
			}
		}
		if job.PodGroup != nil {
			outcome.Phases[job.Namespace+"/"+job.Name] = string(job.PodGroup.Status.Phase)
		}
	}
	sort.Strings(outcome.Evicted)
	return outcome
}

// most is how many binds and evictions a session may have: nobody takes them out of the channels.
const most = 1000

// open is a cache that has read all objects, as Volcano's own test helper fills one. That helper's
// binder waits for a reader of each bind, and its Close forgets the plugins of all sessions.
func open(objects cluster, stop chan struct{}) (*cache.SchedulerCache, error) {
	view := cache.NewCustomMockSchedulerCache(
		"oracle", util.NewFakeBinder(most), util.NewFakeEvictor(most), &util.FakeStatusUpdater{}, nil,
		&record.FakeRecorder{},
	)
	if err := create(view.Client(), objects); err != nil {
		return nil, err
	}
	view.Run(stop)
	for _, node := range objects.Nodes {
		if err := view.AddOrUpdateNode(node); err != nil {
			return nil, err
		}
	}
	for _, pod := range objects.Pods {
		view.AddPod(pod)
	}
	for _, group := range objects.PodGroups {
		view.AddPodGroupV1beta1(group)
	}
	for _, queue := range objects.Queues {
		view.AddQueueV1beta1(queue)
	}
	for _, class := range objects.PriorityClasses {
		view.AddPriorityClass(class)
	}
	for _, quota := range objects.ResourceQuotas {
		view.AddResourceQuota(quota)
	}
	tree, err := hyperNodes(objects)
	if err != nil {
		return nil, err
	}
	view.HyperNodesInfo = tree
	return view, nil
}

// create puts what is read through informers into the client.
func create(client kubernetes.Interface, objects cluster) error {
	var problems []error
	none := metav1.CreateOptions{}
	to := context.Background()
	for _, item := range objects.StorageClasses {
		_, err := client.StorageV1().StorageClasses().Create(to, item, none)
		problems = append(problems, err)
	}
	for _, item := range objects.PVs {
		_, err := client.CoreV1().PersistentVolumes().Create(to, item, none)
		problems = append(problems, err)
	}
	for _, item := range objects.PVCs {
		_, err := client.CoreV1().PersistentVolumeClaims(item.Namespace).Create(to, item, none)
		problems = append(problems, err)
	}
	for _, item := range objects.DeviceClasses {
		_, err := client.ResourceV1().DeviceClasses().Create(to, item, none)
		problems = append(problems, err)
	}
	for _, item := range objects.ResourceClaims {
		_, err := client.ResourceV1().ResourceClaims(item.Namespace).Create(to, item, none)
		problems = append(problems, err)
	}
	for _, item := range objects.ResourceSlices {
		_, err := client.ResourceV1().ResourceSlices().Create(to, item, none)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// hyperNodes is the tree, children before their parents.
func hyperNodes(objects cluster) (*api.HyperNodesInfo, error) {
	indexer := clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{})
	for _, node := range objects.Nodes {
		if err := indexer.Add(node); err != nil {
			return nil, err
		}
	}
	tree := api.NewHyperNodesInfo(corelisters.NewNodeLister(indexer))
	sort.SliceStable(objects.HyperNodes, func(i, j int) bool {
		return objects.HyperNodes[i].Spec.Tier < objects.HyperNodes[j].Spec.Tier
	})
	for _, hyperNode := range objects.HyperNodes {
		if err := tree.UpdateHyperNode(hyperNode); err != nil {
			return nil, fmt.Errorf("hyper node %s: %w", hyperNode.Name, err)
		}
	}
	return tree, nil
}
