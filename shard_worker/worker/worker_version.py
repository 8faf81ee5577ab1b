"""Version that a worker reports before it is assigned a shard.

Coordinators of other versions call :func:`own_version` here, by this name, and read its JSON: both
must stay. Fields that a reader does not know are left alone, and one that is missing makes the two
versions different.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version as installed_version

import orjson

from shard_worker.worker.wire import own_wire
from shared.ledger.schema import SCHEMA


@dataclass(frozen=True, slots=True)
class WorkerVersion:
    version: str
    """Version of the package; for people."""
    schema: int
    """Version of the ledger's records that it reads and writes."""
    wire: str
    """See :func:`shard_worker.worker.wire.own_wire`."""

    def encode(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> WorkerVersion | None:
        """None where it is nothing that any version would say."""
        try:
            fields = orjson.loads(data)
            return cls(str(fields["version"]), int(fields["schema"]), str(fields["wire"]))
        except (ValueError, KeyError, TypeError):
            return None

    def serves_with(self, other: WorkerVersion) -> bool:
        """Whether the two may work on one ledger side by side, whatever they call themselves."""
        return (self.schema, self.wire) == (other.schema, other.wire)


def own_version() -> WorkerVersion:
    return WorkerVersion(installed_version("quadrant"), SCHEMA, own_wire())
