"""Jobs as bytes: what the ledger stores of them beside the states of their tasks."""

from __future__ import annotations

from msgspec.structs import astuple

from shared.codec.packed import Count, Finite, Packed
from shared.model.model import Job, Pairs, Role
from shared.records.specs_base import Spec

_RoleMore = tuple[
    Pairs, Pairs, bool, bool, tuple[Finite, ...], tuple[str, ...], str, Count
]  # labels to start


class _Role(Packed, frozen=True):
    """A role as it is stored: the exit code and the rarely used fields only where one is set."""

    name: str
    cid: Count
    first: Count
    count: Count
    group: Count
    priority: int
    names: tuple[str, ...]
    duration: Finite | None
    exit_code: int = 0
    more: _RoleMore | None = None


_BASE = Role.__struct_fields__.index("exit_code")
_NO_MORE = Role.__struct_defaults__[-8:]
_ROLES = Job.__struct_fields__.index("roles")
_JOB = Spec("job", Job, first=14, optional=4, before=14, stored={"roles": tuple[_Role, ...]})


def encode_job(job: Job) -> bytes:
    fields = astuple(job)
    roles = [_stored(role) for role in job.roles]
    return _JOB.pack((*fields[:_ROLES], roles, *fields[_ROLES + 1 :]))


def decode_job(data: bytes) -> Job:
    """Errors: Malformed."""
    fields = _JOB.unpack(data)
    fields[_ROLES] = tuple([_role(stored) for stored in fields[_ROLES]])
    return Job(*fields)


def _stored(role: Role) -> tuple[object, ...]:
    fields = astuple(role)
    if (more := fields[_BASE + 1 :]) != _NO_MORE:
        return (*fields[: _BASE + 1], more)
    return fields[: _BASE + 1] if role.exit_code else fields[:_BASE]


def _role(stored: _Role) -> Role:
    *base, more = astuple(stored)
    return Role(*base, *(more or ()))
