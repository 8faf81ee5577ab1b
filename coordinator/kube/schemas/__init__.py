"""What each kind's fields mean, by hand: for ``kubectl explain`` and for whoever checks input."""

from __future__ import annotations

from coordinator.kube.schemas.cluster import CLUSTER
from coordinator.kube.schemas.meta import META
from coordinator.kube.schemas.notation import Schema, read
from coordinator.kube.schemas.objects import OBJECTS
from coordinator.kube.schemas.pods import PODS
from coordinator.kube.schemas.volcano import VOLCANO

SCHEMAS: dict[str, Schema] = {
    name: schema
    for part in (META, PODS, CLUSTER, OBJECTS, VOLCANO)
    for name, schema in read(part).items()
}
"""Name of the schema -> JSON schema. The schema of a kind has the kind's name."""

__all__ = ["SCHEMAS", "Schema"]
