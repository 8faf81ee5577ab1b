"""Parsing of Numatopologies: the NUMA domains of nodes, as agents report them."""

from __future__ import annotations

import re

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import frozen, read_amounts
from shared.manifests.fields.metadata import read_metadata
from shared.manifests.fields.reader import Fields, part_of
from shared.model.storage import Numatopology

_IDS = re.compile(r"(?:[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*)?")
_CPUS = 10_000


def read_numatopology(obj: dict[str, object]) -> Numatopology:
    meta = read_metadata(obj, namespaced=False)
    spec = part_of(obj, "spec", "NumatopologySpec")
    policies = spec.child("policies") or Fields({}, "spec.policies")
    return Numatopology(
        name=meta.name,
        policies=tuple((name, policies.text(name)) for name in sorted(policies.data)),
        resources=_resources(spec.child("numares")),
        cpus=_cpus(spec.child("cpuDetail")),
        reserved=frozen(read_amounts(spec.child("resReserved"))),
    )


def _resources(fields: Fields | None) -> tuple[tuple[str, str, int], ...]:
    if fields is None:
        return ()
    resources = []
    for name in sorted(fields.data):
        resource = fields.need(name)
        resource.check("NumaResource")
        ids = resource.text("allocatable", longest=4096)
        if _IDS.fullmatch(ids) is None:
            raise resource.wrong("allocatable", 'not a set of numbers; write it as "0-3,8"')
        resources.append((name, ids, resource.integer("capacity", 0)))
    return tuple(resources)


def _cpus(fields: Fields | None) -> tuple[tuple[int, int, int, int], ...]:
    if fields is None:
        return ()
    if len(fields.data) > _CPUS:
        raise InvalidInput(fields.at, fields.data, f"too many; at most {_CPUS} are allowed")
    cpus = []
    for name in fields.data:
        if not (name.isascii() and name.isdigit() and len(name) < 7):
            raise fields.wrong(name, 'not the number of a CPU; write it as text, as in "0"')
        cpu = fields.need(name)
        places = [cpu.integer(part, 0) for part in ("numa", "socket", "core")]
        cpus.append((int(name), places[0], places[1], places[2]))
    return tuple(sorted(cpus))
