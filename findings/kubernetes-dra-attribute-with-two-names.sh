#!/usr/bin/env bash
# Kubernetes, dynamic resource allocation: whether a selector takes a device is left to chance.
#
# An attribute without a domain belongs to the domain of the device's driver, so that `memory` and
# `gpu.example.com/memory` of a device of driver gpu.example.com are one attribute under two names. The
# API server accepts a ResourceSlice that has both, with different values. A selector in CEL sees the
# value that was put into a map last, in an order that changes from one evaluation to the next: the same
# claim is allocated, or is not. A constraint `matchAttribute` always takes the name with the domain.
#
# Validation, the selector and the allocator here are Kubernetes' own. Two devices have to agree in the
# attribute: they do in the values with the domain, 40, and the second one has 80 without it.
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
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/apis/resource"
	convert "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/utils/ptr"
)

const driver = "gpu.example.com"

type classes struct{}

var class = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}

func (classes) List() ([]*resourceapi.DeviceClass, error)      { return []*resourceapi.DeviceClass{class}, nil }
func (classes) Get(string) (*resourceapi.DeviceClass, error) { return class, nil }

func device(name string, short, long int64) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"memory":           {IntValue: &short},
		driver + "/memory": {IntValue: &long},
	}}
}

func claim(count int64, selectors []resourceapi.DeviceSelector, constraints ...resourceapi.DeviceConstraint) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "ns"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Constraints: constraints,
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Selectors: selectors,
			}}}}}}
}

func TestFinding(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: ptr.To("node"),
		Pool:    resourceapi.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{device("a", 40, 40), device("b", 80, 40)},
	}}
	var internal resource.ResourceSlice
	if err := convert.Convert_v1_ResourceSlice_To_resource_ResourceSlice(slice, &internal, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Println("SEEN errors of the ResourceSlice:", len(validation.ValidateResourceSlice(&internal)))

	large := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].memory >= 80`}}}
	same := resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/memory"))}
	fmt.Println("SEEN one device with memory >= 80:", outcomes(t, slice, claim(1, large)))
	fmt.Println("SEEN two devices with the same memory:", outcomes(t, slice, claim(2, nil, same)))
}

// outcomes allocates the same claim 200 times from the same devices, and says how it came out.
func outcomes(t *testing.T, slice *resourceapi.ResourceSlice, claim *resourceapi.ResourceClaim) string {
	allocator, err := structured.NewAllocator(t.Context(), structured.Features{}, structured.AllocatedState{}, classes{},
		[]*resourceapi.ResourceSlice{slice}, cel.NewCache(10, cel.Features{}))
	if err != nil {
		t.Fatal(err)
	}
	allocated := 0
	for range 200 {
		result, err := allocator.Allocate(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, []*resourceapi.ResourceClaim{claim})
		if err != nil {
			t.Fatal(err)
		}
		if len(result) > 0 {
			allocated++
		}
	}
	switch allocated {
	case 0:
		return "never allocated"
	case 200:
		return "always allocated"
	}
	return "sometimes allocated, sometimes not"
}
GO
)
echo "Kubernetes $KUBERNETES:"
echo "$seen"
[ "$seen" = "SEEN errors of the ResourceSlice: 0
SEEN one device with memory >= 80: sometimes allocated, sometimes not
SEEN two devices with the same memory: always allocated" ] || { echo "This has changed." && exit 1; }
