"""Parsing of nodes: allocatable amounts, taints and images."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import frozen, read_amounts
from shared.manifests.fields.metadata import annotations_of, read_metadata
from shared.manifests.fields.reader import Fields, part_of
from shared.manifests.kubernetes.constraints import read_taints
from shared.manifests.kubernetes.objects import NodeManifest
from shared.manifests.kubernetes.pods import with_tag
from shared.model.model import Pairs
from shared.model.named_devices import DEVICES, read_devices
from shared.units.slots import LIMIT

_NO_PODS = "status.allocatable.pods: absent, so the node takes no pods; write for example 110"
_IMAGES = 1000


def read_node(obj: dict[str, object]) -> NodeManifest:
    """Read a node. It offers ``status.allocatable``, or ``status.capacity`` if that is absent."""
    meta = read_metadata(obj, namespaced=False)
    spec = part_of(obj, "spec", "NodeSpec")
    status = part_of(obj, "status")
    offered = status.child("allocatable") or status.child("capacity")
    if offered is None:
        raise status.wrong("allocatable", "missing; write at least cpu, memory and pods")
    allocatable = read_amounts(offered)
    return NodeManifest(
        name=meta.name,
        allocatable=frozen(allocatable),
        labels=Fields(obj["metadata"], "metadata").labels("labels"),
        taints=read_taints(spec),
        unschedulable=spec.boolean("unschedulable", False),
        notices=() if "pods" in allocatable else (_NO_PODS,),
        annotations=_checked(annotations_of(meta)),
        images=_images(status),
    )


def _checked(annotations: Pairs) -> Pairs:
    """The annotations, where that of the node's devices can be read."""
    for key, text in annotations:
        if key == DEVICES:
            try:
                read_devices(text)
            except ValueError as error:
                raise InvalidInput(f"metadata.annotations.{DEVICES}", text, str(error)) from None
    return annotations


def _images(status: Fields) -> tuple[tuple[str, int], ...]:
    """Every name of every image, with its size."""
    sizes: dict[str, int] = {}
    for image in status.children("images", longest=_IMAGES):
        size = image.integer("sizeBytes", 0, high=LIMIT - 1)
        for name in image.texts("names", longest=100):
            # As pods name them (kube-scheduler's rule): an image without a tag is ``latest``.
            sizes[with_tag(name)] = size
    return tuple(sorted(sizes.items()))
