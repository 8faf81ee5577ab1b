"""Volumes and devices, their claims and classes, as published."""

from __future__ import annotations

from shard_worker.kube_scheduler.filters.volumes import bound
from shared.model.devices import DeviceClass, ResourceSlice
from shared.model.model import WorldObject
from shared.model.objects import ClusterObjects
from shared.model.storage import StorageClass, Volume, VolumeClaim


class VolumeBook:
    def __init__(self) -> None:
        self.objects = ClusterObjects()

    def put(self, value: WorldObject) -> None:
        match value:
            case Volume():
                self.objects.volumes[value.name] = value
            case VolumeClaim():
                self.objects.volume_claims[f"{value.namespace}/{value.name}"] = value
            case StorageClass():
                self.objects.storage_classes[value.name] = value
            case ResourceSlice():
                self.objects.slices[value.name] = value
                self.objects.devices += 1
            case DeviceClass():
                self.objects.device_classes[value.name] = value
                self.objects.devices += 1
            case _:
                pass

    def drop(self, value: WorldObject) -> None:
        match value:
            case Volume():
                self.objects.volumes.pop(value.name, None)
            case VolumeClaim():
                self.objects.volume_claims.pop(f"{value.namespace}/{value.name}", None)
            case StorageClass():
                self.objects.storage_classes.pop(value.name, None)
            case ResourceSlice():
                self.objects.slices.pop(value.name, None)
                self.objects.devices += 1
            case DeviceClass():
                self.objects.device_classes.pop(value.name, None)
                self.objects.devices += 1
            case _:
                pass

    def unbound(self, key: str) -> bool:
        """Whether the claim (``namespace/name``) has no volume, or does not exist."""
        claim = self.objects.volume_claims.get(key)
        return claim is None or not bound(claim)
