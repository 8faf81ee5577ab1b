"""``quadrant apply``: server-side apply of every object in files."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import DryRunChoice, DryRunOption, Files, Namespace, Output
from coordinator.cli.options.failure import EXIT_ERROR, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.manifests import Manifest
    from coordinator.cli.client.session import ServerSession

MANAGER = "quadrant"
"""Manager of the fields that this command writes."""


def apply(
    *,
    files: Files,
    namespace: Namespace = None,
    dry_run: DryRunOption = DryRunChoice.NONE,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that others have written")
    ] = False,
    output: Output = "",
    connection: Connection,
) -> None:
    """Create or change objects from files

    Each object is checked by itself and reported on its own line; ends with 1 if any was refused.
    Files are YAML or JSON, of one or several documents, or a List.

    Examples:

      quadrant apply -f job.yaml

      cat jobs.yaml | quadrant apply -f - --dry-run=server
    """
    from coordinator.cli.client.manifests import read_files
    from coordinator.cli.client.parallel import side_by_side
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import form_of, one_or_list, write, write_form
    from coordinator.cli.output.terminal import say_error

    form = form_of(output)
    documents = read_files(files)
    results: list[dict[str, Any]] = []
    failed = 0
    with session(connection, namespace=namespace) as api:
        _ = api.catalog  # without a server, that is the one thing to tell
        wishes = [_wish(api, source, value) for source, value in documents]
        work = partial(_apply, dry_run=dry_run, force=force_conflicts)
        for wish, result in side_by_side(api, wishes, work, alike=_alike(wishes)):
            if result.error:
                failed += 1
                say_error(f"{wish.source}: {_of(wish.value)}{result.error}")
            elif form.word == "name":
                write(f"{wish.label}\n")
            elif form.table:
                write(f"{wish.label} {result.verb}{SUFFIX[dry_run]}\n")
            else:
                results.append(result.object)
    if results:
        write_form(form, one_or_list(results, single=len(documents) == 1))
    if failed:
        raise typer.Exit(EXIT_ERROR)


SUFFIX = {
    DryRunChoice.NONE: "",
    DryRunChoice.CLIENT: " (dry run)",
    DryRunChoice.SERVER: " (server dry run)",
}
"""Stands after the verb of a change that was only pretended."""


@dataclass(frozen=True, slots=True)
class ApplyItem:
    """One object of the files. Without ``manifest`` it is not sent; ``error`` says why."""

    source: str
    value: dict[str, Any]
    manifest: Manifest | None
    error: str = ""

    @property
    def label(self) -> str:
        return self.manifest.label if self.manifest is not None else ""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one object."""

    verb: str = ""
    object: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def _wish(session: ServerSession, source: str, value: dict[str, Any]) -> ApplyItem:
    from coordinator.cli.client.client import KubeError
    from coordinator.cli.client.manifests import placed

    try:
        return ApplyItem(source, value, placed(session, source, value))
    except (KubeError, CommandError) as error:
        return ApplyItem(source, value, None, str(error))


def _alike(wishes: list[ApplyItem]) -> Callable[[ApplyItem], Hashable]:
    """The key of items that may be sent side by side: their kind. If an object is named twice, all
    are sent one after the other, so that the last one wins."""
    paths = [wish.manifest.path for wish in wishes if wish.manifest is not None]
    if len(set(paths)) < len(paths):
        return id
    return lambda wish: wish.manifest.resource if wish.manifest is not None else None


def _apply(
    session: ServerSession, wish: ApplyItem, *, dry_run: DryRunChoice, force: bool
) -> Applied:
    """Raises KubeError where no server answers; a refusal is a result."""
    from coordinator.cli.client.client import RequestRefused

    manifest = wish.manifest
    if manifest is None:
        return Applied(error=wish.error)
    try:
        before = live(session, manifest)
        if dry_run is DryRunChoice.CLIENT:
            return Applied("configured" if before else "created", manifest.object)
        after = apply_patch(session, manifest, dry_run=dry_run is DryRunChoice.SERVER, force=force)
    except RequestRefused as error:
        return Applied(error=str(error))
    if before is None:
        return Applied("created", after)
    return Applied("configured" if _changed(before, after) else "unchanged", after)


def live(session: ServerSession, manifest: Manifest) -> dict[str, Any] | None:
    """The object as it is on the server; None if it does not exist."""
    from coordinator.cli.client.client import KubeError

    try:
        return session.client.get(manifest.path)
    except KubeError as error:
        if error.code != 404:
            raise
        return None


def apply_patch(
    session: ServerSession, manifest: Manifest, *, dry_run: bool, force: bool = False
) -> dict[str, Any]:
    """The object as it is, or would be, afterwards. Raises KubeError."""
    import orjson

    from coordinator.cli.client.client import APPLY

    query = {
        "fieldManager": MANAGER,
        "fieldValidation": "Strict",
        "dryRun": "All" if dry_run else "",
        "force": "true" if force else "",
    }
    body = orjson.dumps(manifest.object)
    return session.client.ask("PATCH", manifest.path, query, body=body, content=APPLY)[1]


VOLATILE = ("managedFields", "resourceVersion", "generation")
"""Metadata that moves with every write."""


def bare(value: dict[str, Any]) -> dict[str, Any]:
    """The object without the fields that change with every write, and without the annotations that
    the server alone writes: those of a running pod move with its node's shard, also between two
    reads."""
    from coordinator.intake.documents.metadata import OWN

    meta = {k: v for k, v in (value.get("metadata") or {}).items() if k not in VOLATILE}
    if annotations := meta.pop("annotations", None):
        copied = {name: text for name, text in annotations.items() if name not in OWN}
        meta |= {"annotations": copied} if copied else {}
    return {**value, "metadata": meta}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the apply changed the object, its status aside. Versions cannot tell: the scheduler
    may raise them between the two reads, and a dry run returns the old one."""
    ours = [{k: v for k, v in bare(obj).items() if k != "status"} for obj in (before, after)]
    return ours[0] != ours[1]


def _of(value: dict[str, Any]) -> str:
    """The name of the object that a refusal is about, for the front of its line."""
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return f"{value.get('kind') or 'object'} {name}: " if name else ""
