"""A request in Kubernetes' terms: the attributes that its RBAC judges.

One rule: a path below ``/api`` or ``/apis`` is what an API server would take it for (its
``RequestInfo``), every other one is a ``nonResourceURL``. So an explanation is ``get`` on
``pods/explain`` in the pod's namespace, and may be allowed by a Role there. The reference has a
table of it, made from here (``docs/reference/access.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.api.auth.roles import needed

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "OPTIONS": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_MANY = {"get": "list", "delete": "deletecollection"}
"""Where the path names no object."""


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """A verb on a resource, as a SubjectAccessReview's ``resourceAttributes``."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its sub resource, as rules of RBAC name it."""
        return "/".join(filter(None, (self.resource, self.subresource)))


@dataclass(frozen=True, slots=True)
class PathAccess:
    """A verb on a path that is no object, as ``nonResourceAttributes``."""

    verb: str
    path: str


Access = ResourceAccess | PathAccess


def access_of(
    method: str, route: str, values: Mapping[str, str], *, watch: bool = False
) -> Access | None:
    """Access right that a request needs; None if it needs none.

    ``route`` is the pattern of the path, which identifies the handler however the path was
    written; ``values`` are those of its ``{fields}``.
    """
    if needed(method, route) is None:
        return None
    verb = _VERBS.get(method, method.lower())
    match [_filled(part, values) for part in route.strip("/").split("/")]:
        case ["api", version, resource, *rest]:
            return _resource(verb, ("", version), [resource, *rest], watch=watch)
        case ["apis", group, version, resource, *rest]:
            return _resource(verb, (group, version), [resource, *rest], watch=watch)
        case parts:
            return PathAccess(method.lower(), "/" + "/".join(parts))


def _filled(part: str, values: Mapping[str, str]) -> str:
    return values.get(part[1:-1], part) if part[:1] == "{" else part


def _resource(
    verb: str, group_version: tuple[str, str], parts: list[str], *, watch: bool
) -> ResourceAccess:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        parts = parts[2:] or parts  # a Namespace itself is in itself
    resource, name, subresource = (*parts, "", "")[:3]
    if not name:
        verb = "watch" if watch and verb == "get" else _OF_MANY.get(verb, verb)
    return ResourceAccess(verb, *group_version, resource, subresource, namespace, name)
