"""Refusals in Kubernetes' format, so that its tools print familiar messages."""

from __future__ import annotations

from http import HTTPStatus

from coordinator.errors import Cause, Problem, not_found
from coordinator.intake.admission.step import Notice
from coordinator.intake.documents.kinds import Kind
from shared.errors import Mistake, Refusal
from shared.units.amount_text import some

_REASONS = (
    ("missing", "FieldValueRequired", "Required value"),
    ("unknown field", "FieldValueForbidden", "Forbidden"),
    ("unknown", "FieldValueNotSupported", "Unsupported value"),
    ("not in this version", "FieldValueNotSupported", "Unsupported value"),
    ("cannot change", "FieldValueForbidden", "Forbidden"),
    ("too many", "FieldValueTooMany", "Too many"),
    ("too long", "FieldValueTooLong", "Too long"),
)
"""Prefix of a refusal's message -> Kubernetes' reason, and the prefix of its messages."""
_INVALID = ("", "FieldValueInvalid", "Invalid value")
_LONGEST_WARNING = 500

CAUSES = 5
"""Mistakes that the message of a refusal has."""


def of_refusal(kind: Kind, name: str, refusal: Refusal, *, exists: bool = False) -> Problem:
    """The answer to a refusal by admission. ``name``: without the namespace. ``exists``: the
    request was an update, not a creation."""
    if exists and refusal.field == "metadata.name" and "cannot change" in refusal.message:
        remedy = "delete it and create it anew; labels and annotations can change"
        message = f"Forbidden: the specification of a {kind.written} cannot change; {remedy}"
        return invalid(kind, name, Cause("spec", message, "FieldValueForbidden"))
    match refusal.reason:
        case "NotFound":
            return not_found(kind.plural, name, group=kind.group)
        case "AlreadyExists":
            return being_deleted(kind, name)
        case "Conflict":
            return conflict(kind, name, refusal.message)
        case "Forbidden":
            return forbidden(kind, name, refusal.message)
        case _:
            return invalid(kind, name, _cause(refusal), *map(_cause, refusal.more))


def _cause(refusal: Refusal | Mistake) -> Cause:
    message = refusal.message
    _, reason, wording = next((r for r in _REASONS if message.startswith(r[0])), _INVALID)
    bare = reason in ("FieldValueRequired", "FieldValueForbidden") or not refusal.value
    got = "" if bare else f": {refusal.value}"
    return Cause(refusal.field or "metadata", f"{wording}{got}: {message}", reason)


def invalid(kind: Kind, name: str, *causes: Cause) -> Problem:
    """422 Invalid. The message of each cause begins with Kubernetes' words for its reason."""
    # All of them are in the details, for programs.
    text = some((f"{cause.field}: {cause.message}" for cause in causes), CAUSES)
    text = f"[{text}]" if len(causes) > 1 else text
    group = f".{kind.group}" if kind.group else ""
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f'{kind.written}{group} "{name}" is invalid: {text}',
        kind=kind.written,
        group=kind.group,
        name=name,
        causes=causes,
    )


def conflict(kind: Kind, name: str, why: str) -> Problem:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return about(kind, name, message)


def forbidden(kind: Kind, name: str, why: str) -> Problem:
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return about(kind, name, message, HTTPStatus.FORBIDDEN)


def modified(kind: Kind, name: str) -> Problem:
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(kind, name, f"{why} and try again")


def already_exists(kind: Kind, name: str) -> Problem:
    message = f'{kind.resource} "{name}" already exists'
    return about(kind, name, message, reason="AlreadyExists")


def being_deleted(kind: Kind, name: str) -> Problem:
    message = f'object is being deleted: {kind.resource} "{name}" already exists'
    return about(kind, name, f"{message}; wait until it is gone", reason="AlreadyExists")


def about(
    kind: Kind,
    name: str,
    message: str,
    status: HTTPStatus = HTTPStatus.CONFLICT,
    *,
    reason: str = "",
    causes: tuple[Cause, ...] = (),
) -> Problem:
    """A refusal that is about one object."""
    resource, group = kind.plural, kind.group
    return Problem(
        status, message, reason=reason, kind=resource, group=group, name=name, causes=causes
    )


def belongs(kind: Kind, name: str, owner: str) -> Problem:
    """422 for a derived object (pods and the PodGroup of a Job), which cannot be written itself."""
    remedy = f"Forbidden: it belongs to {owner}; change or delete that instead"
    return invalid(kind, name, Cause("metadata.ownerReferences", remedy, "FieldValueForbidden"))


def warning(notice: Notice) -> str:
    """The value of a ``Warning`` header."""
    count = f" ({notice.count} times)" if notice.count > 1 else ""
    text = f"{notice.message}{count}"[:_LONGEST_WARNING]
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
