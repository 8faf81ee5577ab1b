#!/usr/bin/env bash
# Volcano, sharding controller: a scheduler's maximum of nodes holds only in clusters of up to 50 nodes.
#
# The controller shares out the nodes among schedulers, each with a range of CPU utilization and a
# minimum and a maximum of nodes. Above 50 nodes it works through them in batches of 50, and each batch is
# shared out as if it were the cluster: with a maximum of 10 and 500 nodes, a scheduler gets 100.
# The ranges that it has by default end at 0.60 for Volcano and begin at 0.70 for the agent scheduler. A
# node between them belongs to nobody: with hard sharding it takes no more pods until some of its own end.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(volcano_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/controllers/sharding"
)

// clusterMetrics has the metrics of each node, as the controller counts them from the requests of pods.
type clusterMetrics map[string]*sharding.NodeMetrics

func (m clusterMetrics) GetNodeMetrics(name string) *sharding.NodeMetrics             { return m[name] }
func (m clusterMetrics) GetAllNodeMetrics() map[string]*sharding.NodeMetrics          { return m }
func (m clusterMetrics) UpdateNodeMetrics(name string, metrics *sharding.NodeMetrics) { m[name] = metrics }

func scheduler(name string, low, high float64, least, most int) sharding.SchedulerConfig {
	config := sharding.SchedulerConfig{Name: name, ShardStrategy: sharding.ShardStrategy{MinNodes: least, MaxNodes: most}}
	config.ShardStrategy.CPUUtilizationRange.Min, config.ShardStrategy.CPUUtilizationRange.Max = low, high
	return config
}

// nodesOf is the number of nodes of each scheduler; all nodes have the same utilization.
func nodesOf(t *testing.T, number int, utilization float64, schedulers ...sharding.SchedulerConfig) map[string]int {
	metrics, nodes := clusterMetrics{}, []*v1.Node{}
	for index := range number {
		name := fmt.Sprintf("n%d", index)
		nodes = append(nodes, node(name, nil))
		metrics[name] = &sharding.NodeMetrics{NodeName: name, CPUUtilization: utilization}
	}
	shares, err := sharding.NewShardingManager(schedulers, metrics).CalculateShardAssignments(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for name, share := range shares {
		counts[name] = len(share.NodesDesired)
	}
	return counts
}

func TestFinding(t *testing.T) {
	for _, number := range []int{50, 51, 500} {
		counts := nodesOf(t, number, 0, scheduler("volcano", 0, 1, 1, 10))
		fmt.Printf("SEEN %d nodes, a maximum of 10: %d\n", number, counts["volcano"])
	}
	schedulers := []sharding.SchedulerConfig{}
	for _, spec := range sharding.NewShardingControllerOptions().SchedulerConfigs {
		schedulers = append(schedulers, scheduler(spec.Name, spec.CPUUtilizationMin, spec.CPUUtilizationMax, spec.MinNodes, spec.MaxNodes))
	}
	for _, utilization := range []float64{0.60, 0.65, 0.70} {
		fmt.Printf("SEEN default ranges, a node at %.2f: %v\n", utilization, nodesOf(t, 1, utilization, schedulers...))
	}
}
GO
)
echo "Volcano $VOLCANO, number of nodes in the shard of each scheduler:"
echo "$seen"
[ "$seen" = "SEEN 50 nodes, a maximum of 10: 10
SEEN 51 nodes, a maximum of 10: 11
SEEN 500 nodes, a maximum of 10: 100
SEEN default ranges, a node at 0.60: map[agent-scheduler:0 volcano:1]
SEEN default ranges, a node at 0.65: map[agent-scheduler:0 volcano:0]
SEEN default ranges, a node at 0.70: map[agent-scheduler:1 volcano:0]" ] || { echo "This has changed." && exit 1; }
