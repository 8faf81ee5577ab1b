"""The schemas of all kinds, by name."""

from __future__ import annotations

from shared.schemas.cluster import CLUSTER
from shared.schemas.groups import GROUPS
from shared.schemas.inert import INERT
from shared.schemas.kai import KAI
from shared.schemas.meta import META
from shared.schemas.notation import FieldTable, Schema, read
from shared.schemas.objects import OBJECTS
from shared.schemas.pods import PODS
from shared.schemas.volcano import VOLCANO

TABLES: dict[str, FieldTable] = {
    name: table
    for part in (META, PODS, CLUSTER, OBJECTS, INERT, VOLCANO, KAI, GROUPS)
    for name, table in read(part).items()
}
"""Name of the schema -> its fields. The schema of a kind has the kind's name."""
SCHEMAS: dict[str, Schema] = {name: table.schema for name, table in TABLES.items()}
