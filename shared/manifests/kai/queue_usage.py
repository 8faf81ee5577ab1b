"""Usage of queues in the past, read from a file: queue -> ``{cpu, memory, gpu}``, each as a part of
the cluster's capacity over the window, as the ``usageDBConfig`` of a KAI policy defines it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import yaml

from shared.errors import InvalidInput
from shared.manifests.text.text import read_values
from shared.policy.kai_usage import USAGE_ONE

UsageParts = dict[str, tuple[int, int, int]]
"""Queue -> its use of cpu, memory and GPUs, in billionths of what there was."""

RESOURCES = ("cpu", "memory", "gpu")
MOST = 1000
"""Times the whole cluster: nobody used more, and shares are divided in whole numbers."""
_EXAMPLE = "write for example {cpu: 0.25, memory: 0.2, gpu: 0.5}"


def read_queue_usage(text: str) -> UsageParts:
    """Raises InvalidInput; TextError where it is no YAML."""
    values = [value for value in read_values(text.encode()) if value is not None]
    if len(values) > 1 or not all(isinstance(value, Mapping) for value in values):
        raise InvalidInput("", values, f"not one mapping of queues; {_EXAMPLE} for each")
    queues = values[0] if values else {}
    return {str(name): _parts(str(name), parts) for name, parts in queues.items()}


def _parts(queue: str, parts: object) -> tuple[int, int, int]:
    if not isinstance(parts, Mapping):
        raise InvalidInput(queue, parts, f"not a mapping; {_EXAMPLE}")
    for name in parts:
        if name not in RESOURCES:
            raise InvalidInput(f"{queue}.{name}", parts[name], f"unknown; {_EXAMPLE}")
    cpu, memory, gpu = (_part(parts.get(name, 0), f"{queue}.{name}") for name in RESOURCES)
    return cpu, memory, gpu


def _part(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise InvalidInput(field, value, f"not a part of the cluster, 0 to 1; {_EXAMPLE}")
    return int(Fraction(str(value)) * USAGE_ONE)


def written_queue_usage(usage: Mapping[str, tuple[int, int, int]]) -> str:
    """The inverse of :func:`read_queue_usage`."""
    named = {
        name: {resource: part / USAGE_ONE for resource, part in zip(RESOURCES, parts, strict=True)}
        for name, parts in sorted(usage.items())
    }
    return yaml.safe_dump(named, sort_keys=False)
