#!/usr/bin/env bash
# Volcano, plugin deviceshare: a share of a broken GPU is given out, and "A10" means A100 as well.
#
# The device plugin registers a node's cards in an annotation, with "true" or "false" for their health.
# The scheduler reads that word into its record of the card, and nothing asks for it: a pod is let onto
# a node whose only card is unhealthy. The annotation `nvidia.com/use-gputype` is compared as a part of
# the card's name: A10 lets a pod onto an A100, L4 onto an L40S, and `nvidia.com/nouse-gputype: L4` keeps
# it off an L40S. With this annotation nobody can ask for an A10 without being offered an A100.
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
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api/devices"
	"volcano.sh/volcano/pkg/scheduler/api/devices/config"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
)

// fits tells whether a pod with the annotation may take a share of the only card of a node.
func fits(card, health, annotation, kind string) bool {
	host := node("n1", nil)
	host.Annotations = map[string]string{
		config.VolcanoVGPURegister:  "GPU-1,10,40960," + card + "," + health + ",hami-core:",
		config.VolcanoVGPUHandshake: "Requesting_" + time.Now().Format("2006.01.02 15:04:05"),
	}
	sharing := pod("p")
	sharing.Annotations[annotation] = kind
	sharing.Spec.Containers[0].Resources.Limits = v1.ResourceList{
		config.VolcanoVGPUNumber: resource.MustParse("1"), config.VolcanoVGPUMemory: resource.MustParse("1000"),
	}
	code, _, err := vgpu.NewGPUDevices("n1", host).FilterNode(sharing, "")
	return err == nil && code == devices.Success
}

func TestFinding(t *testing.T) {
	vgpu.VGPUEnable = true
	fmt.Println("SEEN healthy:", fits("NVIDIA-NVIDIA A100", "true", "none", ""))
	fmt.Println("SEEN unhealthy:", fits("NVIDIA-NVIDIA A100", "false", "none", ""))
	fmt.Println("SEEN use H100, has A100:", fits("NVIDIA-NVIDIA A100", "true", vgpu.GPUInUse, "H100"))
	fmt.Println("SEEN use A10, has A100:", fits("NVIDIA-NVIDIA A100", "true", vgpu.GPUInUse, "A10"))
	fmt.Println("SEEN not L4, has L40S:", fits("NVIDIA-NVIDIA L40S", "true", vgpu.GPUNoUse, "L4"))
}
GO
)
echo "Volcano $VOLCANO, may a pod take a share of the only card of a node:"
echo "$seen"
[ "$seen" = "SEEN healthy: true
SEEN unhealthy: true
SEEN use H100, has A100: false
SEEN use A10, has A100: true
SEEN not L4, has L40S: false" ] || { echo "This has changed." && exit 1; }
