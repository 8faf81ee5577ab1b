"""Names of the pods that nobody submitted: those of a Job follow from its name and its roles.

They are never listed. A name is parsed instead: ``a-b-c-3`` may be pod 3 of role ``b-c`` of Job
``a``, or of role ``c`` of Job ``a-b``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from shared.errors import InvalidInput
from shared.model.model import Job, Role

_DIGITS = 7
"""Most digits of a pod's index; a job has at most a million tasks."""


class PodOwners(Protocol):
    """The part of a registry, or of a draft, that lookups by name need."""

    def job_named(self, key: str) -> Job | None:
        """The Job ``namespace/name``; one that is being deleted counts too."""
        ...


def owner_of(names: PodOwners, namespace: str, name: str) -> tuple[Job, int] | None:
    """The Job that has a pod of this name, and the pod's task index."""
    stem, _, number = name.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        return None
    index = int(number)
    if str(index) != number:
        return None
    cut = stem.find("-")
    while cut > 0:
        job = names.job_named(f"{namespace}/{stem[:cut]}")
        if job is not None and (role := _role(job, stem[cut + 1 :], index)):
            return job, role.first + index - role.start
        cut = stem.find("-", cut + 1)
    return None


def _role(job: Job, name: str, index: int) -> Role | None:
    """The role of this name that has a member with this index."""
    for role in job.roles:
        if role.name == name and role.start <= index < role.start + role.count:
            return role
    return None


def check_free(names: PodOwners, pods: Mapping[str, int], new: Job) -> None:
    """Refuse a Job whose pods would take the names of existing pods."""
    for role in new.roles:
        stem = f"{new.name}-{role.name}-"
        owner = owner_of(names, new.namespace, f"{stem}{role.start}")
        if owner is not None:
            message = f"its pods would be named like those of Job {owner[0].key}; use another name"
            raise InvalidInput("metadata.name", new.name, message)
        for pod in _shorter(pods, f"{new.namespace}/{stem}", role.start + role.count):
            message = f"pod {pod} exists, as one of its pods would be named; use another name"
            raise InvalidInput("metadata.name", new.name, message)


def _shorter(pods: Mapping[str, int], prefix: str, count: int) -> Iterable[str]:
    """Existing pods with a name that the role would generate; iterates over the smaller of the two
    sets."""
    if count <= len(pods):
        return (name for i in range(count) if (name := f"{prefix}{i}") in pods)
    length = len(prefix)
    return (
        name
        for name in pods
        if name.startswith(prefix) and name[length:].isdecimal() and int(name[length:]) < count
    )
