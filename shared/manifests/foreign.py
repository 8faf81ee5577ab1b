"""Remedies for objects of APIs that are not served: what to write in their place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from shared.errors import SHOWN

OTHER_FORM: dict[tuple[str, str], str] = {
    ("batch/v1", "Job"): (
        "a gang is a Job of batch.volcano.sh/v1alpha1: write that, and in spec.tasks a list with "
        "one item of replicas (what parallelism was) and template (what spec.template was)"
    )
}
"""(apiVersion, kind) of other APIs whose objects have another form than ours: what to write. For
all others with a kind of ours it is the version alone; what else differs is told beside it."""


def unknown_kind(version: object, kind: object, kinds: Iterable[tuple[str, str]]) -> str:
    """The remedy for a kind that is not served. ``kinds``: (apiVersion, kind) of those
    that are."""
    if (remedy := OTHER_FORM.get((str(version), str(kind)))) is not None:
        return remedy
    group, slash, _ = str(version).partition("/")
    served = list(kinds)
    if slash and not any(v.startswith(f"{group}/") for v, _ in served):
        return (
            f"nothing here acts on objects of {group}; leave it out, or if it makes pods, write "
            "those as a Job of batch.volcano.sh/v1alpha1"
        )
    names = sorted({kind for _, kind in served})
    near = difflib.get_close_matches(str(kind)[:SHOWN], names, n=1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(names)}"
