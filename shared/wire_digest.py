"""Digest of the wire format that a coordinator and its workers must have in common.

Written by ``make reference``. A worker and its coordinator compute it: shard_worker.worker.wire.
"""

from __future__ import annotations

WIRE = "c18c1059664f"
