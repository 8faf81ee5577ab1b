"""What clients ask first: which kinds there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from laboratory.api_server.answers import Json
from laboratory.api_server.kinds import SERVED, ServedKind

AGGREGATED = "APIGroupDiscoveryList"
"""In the header Accept of who wants all kinds in one answer."""


def resource_list(api_version: str) -> Json | None:
    """The kinds of one version; None where there is no such version."""
    kinds = [served for served in SERVED if served.kind.api_version == api_version]
    if not kinds:
        return None
    resources = [entry for served in kinds for entry in _entries(served)]
    body: Json = {"kind": "APIResourceList", "groupVersion": api_version, "resources": resources}
    return body if "/" not in api_version else body | {"apiVersion": "v1"}


def _entries(served: ServedKind) -> Iterator[Json]:
    kind = served.kind
    about = {"namespaced": kind.namespaced, "kind": kind.written}
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "verbs": sorted(served.verbs),
    } | about
    for sub in served.sub_resources:
        yield {"name": f"{kind.plural}/{sub}", "singularName": "", "verbs": []} | about


def aggregated(*, core: bool) -> Json:
    """All kinds: of the core group, or of all others."""
    chosen = sorted(
        (served for served in SERVED if (served.group == "") == core),
        key=lambda served: served.kind.api_version,
    )
    items: list[Json] = []
    for group, kinds in groupby(chosen, key=lambda served: served.group):
        versions = [
            {"version": version, "resources": [_aggregated(served) for served in of_version]}
            for version, of_version in groupby(kinds, key=lambda served: served.kind.version)
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    about = {"kind": AGGREGATED, "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return about | {"items": items}


def _aggregated(served: ServedKind) -> Json:
    kind = served.kind
    return {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.written},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": sorted(served.verbs),
    }
