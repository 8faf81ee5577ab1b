#!/usr/bin/env bash
# KAI, plugin proportion: a queue of lower priority gets a GPU that two of higher priority still ask for.
#
# What is beyond all quotas goes to the queues of the highest priority first, and to the next ones what
# those do not ask for. Each queue's part is rounded down to whole GPUs, and the remainders are given out
# only after all priorities had their turn. Of 3 GPUs, two queues of priority 200 get one each of the 1.5
# that is their part; the third GPU is left, and the queue of priority 100 takes it as its whole part.
# With 4 GPUs it gets none. For the same reason three queues that ask for 0.4 of one GPU do not share it:
# the part of each, a third, is rounded to 0, and the oldest queue's fair share is the whole GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kai.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kai_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"
	"time"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins/proportion/resource_division"
	rs "github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins/proportion/resource_share"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shares divides GPUs among queues a, b and c, the oldest first, which all ask for the same number.
func shares(total, request float64, priorities ...int) {
	queues := map[common_info.QueueID]*rs.QueueAttributes{}
	for index, priority := range priorities {
		name := string(rune('a' + index))
		queues[common_info.QueueID(name)] = &rs.QueueAttributes{
			UID: common_info.QueueID(name), Name: name, Priority: priority,
			CreationTimestamp: metav1.Time{Time: time.Unix(int64(index), 0)},
			QueueResourceShare: rs.QueueResourceShare{
				GPU: rs.ResourceShare{MaxAllowed: -1, OverQuotaWeight: 1, Request: request},
				CPU: rs.ResourceShare{MaxAllowed: -1}, Memory: rs.ResourceShare{MaxAllowed: -1},
			},
		}
	}
	resource_division.SetResourcesShare(rs.NewResourceQuantities(0, 0, total), 0, queues)
	fmt.Printf("SEEN %v GPUs, %v for each, priorities %v: a %v, b %v, c %v\n", total, request, priorities,
		queues["a"].GPU.FairShare, queues["b"].GPU.FairShare, queues["c"].GPU.FairShare)
}

func TestFinding(t *testing.T) {
	if err := log.InitLoggers(0); err != nil {
		t.Fatal(err)
	}
	shares(3, 3, 200, 200, 100)
	shares(4, 3, 200, 200, 100)
	shares(1, 0.4, 100, 100, 100)
}
GO
)
echo "KAI $KAI, fair shares of queues without a quota:"
echo "$seen"
[ "$seen" = "SEEN 3 GPUs, 3 for each, priorities [200 200 100]: a 1, b 1, c 1
SEEN 4 GPUs, 3 for each, priorities [200 200 100]: a 2, b 2, c 0
SEEN 1 GPUs, 0.4 for each, priorities [100 100 100]: a 1, b 0, c 0" ] || { echo "This has changed." && exit 1; }
