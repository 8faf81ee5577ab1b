"""The description of one object: identity, specification, status and events."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.cli.output.printing import Object, TextColumns, cell, wrapped
from shared.units.times import moment, span

NONE = "<none>"
INDENT = "  "

_SHOWN_APART = ("conditions", "explanations")
"""Parts of a status that are tables of their own."""


def describe(
    value: Object, events: Sequence[Object], now: float, *, width: int | None = None
) -> str:
    """The whole text, with a line break at its end. ``width``: columns of the terminal, to which
    sentences are wrapped; None leaves every value on its line."""
    lines = [*_head(value, now)]
    for section in sorted(value.keys() - {"apiVersion", "kind", "metadata", "status"}):
        lines += _section(title(section), value[section])
    status = value.get("status") or {}
    if isinstance(status, dict):
        lines += _section("Status", {k: v for k, v in status.items() if k not in _SHOWN_APART})
    if width is not None:
        lines = [part for line in lines for part in _hanging(line, width)]
    if isinstance(status, dict):
        lines += _conditions(status.get("conditions") or (), now, width)
        lines += _explanations(status.get("explanations") or (), now, width)
    lines += _events(events, now, width)
    return "\n".join(lines) + "\n"


def _hanging(line: str, width: int) -> list[str]:
    """A line ``Name:  value`` with the value below itself where it is longer than the terminal."""
    label = re.match(r" *(- )?[^:]+: +", line)
    if len(line) <= width or label is None:
        return [line]
    indent = min(label.end(), width // 2)
    first, *rest = wrapped(line[label.end() :], width - indent)
    return [line[: label.end()] + first, *(" " * indent + line_rest for line_rest in rest)]


# --- who it is --------------------------------------------------------------------------------


def _head(value: Object, now: float) -> Iterator[str]:
    meta = value.get("metadata") or {}
    facts: list[tuple[str, list[str]]] = [("Name", [cell(meta.get("name"))])]
    if meta.get("namespace"):
        facts.append(("Namespace", [meta["namespace"]]))
    facts.append(("Kind", [f"{value.get('kind')} ({value.get('apiVersion')})"]))
    facts.append(("Labels", _pairs(meta.get("labels"), "=")))
    facts.append(("Annotations", _pairs(meta.get("annotations"), ": ")))
    created = meta.get("creationTimestamp")
    facts.append(("Created", [f"{created} ({ago(created, now)} ago)" if created else UNKNOWN]))
    if deleted := meta.get("deletionTimestamp"):
        facts.append(("Deleting", [f"since {deleted} ({ago(deleted, now)})"]))
    if owners := meta.get("ownerReferences"):
        facts.append(("Belongs to", [f"{owner['kind']}/{owner['name']}" for owner in owners]))
    if (phase := _phase(value)) is not None:
        facts.append(("Phase", [phase]))
    if reason := waiting_for(value):
        facts.append(("Reason", [reason]))
    width = max(len(name) for name, _ in facts) + 3
    for name, values in facts:
        for at, text in enumerate(values):
            yield (f"{name}:" if at == 0 else "").ljust(width) + text


def _pairs(values: Mapping[str, str] | None, between: str) -> list[str]:
    return [f"{key}{between}{item}" for key, item in sorted((values or {}).items())] or [NONE]


def _phase(value: Object) -> str | None:
    status = value.get("status")
    if not isinstance(status, dict):
        return None
    state = status.get("state")
    phase = status.get("phase") or (state.get("phase") if isinstance(state, dict) else state)
    return str(phase) if phase else None


def waiting_for(value: Object) -> str:
    """Why it waits, in a word and a sentence; "" where nothing says so."""
    status = value.get("status")
    if not isinstance(status, dict):
        return ""
    for explanation in status.get("explanations") or ():
        return _sentence(explanation)
    for condition in status.get("conditions") or ():
        bad = condition.get("type") == "Unschedulable" and condition.get("status") == "True"
        if bad or (condition.get("type") == "PodScheduled" and condition.get("status") == "False"):
            return _sentence(condition)
    return ""


def _sentence(fields: Mapping[str, Any]) -> str:
    """Sentence of a condition. Where its reason is Kubernetes' general word, the message already
    begins with our reason."""
    reason, message = str(fields.get("reason") or ""), str(fields.get("message") or "")
    if re.match(r"[A-Z][A-Za-z]+: ", message):
        return message
    return f"{reason}: {message}" if message else reason


# --- what it wants, how it is -----------------------------------------------------------------


def title(name: str) -> str:
    """``minAvailable`` -> ``Min Available``; what is no such name stays: ``nvidia.com/gpu``."""
    if not re.fullmatch(r"[a-z][A-Za-z0-9]*", name):
        return name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return words[:1].upper() + words[1:]


def _section(name: str, value: Any) -> list[str]:
    if value in (None, {}, [], ""):
        return []
    if isinstance(value, dict):
        return [f"{name}:", *_fields(value, 1)]
    if isinstance(value, list):
        return [f"{name}:", *_list(value, 1)]
    return [f"{name}:{INDENT}{cell(value)}"]


def _fields(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    plain = [len(title(k)) for k, v in values.items() if not isinstance(v, dict | list) or not v]
    width = max(plain, default=0) + 3
    for key, value in values.items():
        label = f"{INDENT * depth}{title(key)}:"
        if isinstance(value, dict | list) and value:
            yield label
            inner = (
                _fields(value, depth + 1) if isinstance(value, dict) else _list(value, depth + 1)
            )
            yield from inner
        else:
            shown = cell(value) if not isinstance(value, dict | list) else NONE
            yield label.ljust(len(INDENT * depth) + width) + (shown or '""')


def _list(values: Sequence[Any], depth: int) -> Iterator[str]:
    for value in values:
        if not isinstance(value, dict):
            yield f"{INDENT * depth}- {cell(value)}"
            continue
        inner = list(_fields(value, depth + 1))
        first = f"{INDENT * depth}- {inner[0].lstrip()}" if inner else f"{INDENT * depth}- {NONE}"
        yield first
        yield from inner[1:]


# --- tables -----------------------------------------------------------------------------------


def _table(
    name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    lines: list[str] = []
    columns = TextColumns(
        heads,
        out=lambda text: lines.append(INDENT + text.rstrip("\n")),
        width=None if width is None else width - len(INDENT),
    )
    columns.rows(rows)
    return [f"{name}:", *lines]


def _conditions(
    conditions: Sequence[Mapping[str, Any]], now: float, width: int | None
) -> list[str]:
    rows = [
        [
            cell(condition.get("type")),
            cell(condition.get("status")),
            ago(condition.get("lastTransitionTime"), now),
            cell(condition.get("reason") or None),
            cell(condition.get("message") or None),
        ]
        for condition in conditions
    ]
    heads = ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
    return _table("Conditions", heads, rows, width) if rows else []


def _explanations(
    explanations: Sequence[Mapping[str, Any]], now: float, width: int | None
) -> list[str]:
    rows = [
        [
            cell(explanation.get("reason")),
            ago(explanation.get("evaluatedAt"), now) if explanation.get("evaluatedAt") else "now",
            cell(explanation.get("shard")),
            cell(explanation.get("message")),
        ]
        for explanation in explanations
    ]
    heads = ("REASON", "FOUND", "SHARD", "MESSAGE")
    return _table("Explanations", heads, rows, width) if rows else []


def _events(events: Sequence[Object], now: float, width: int | None) -> list[str]:
    if not events:
        return [f"Events:{INDENT}{NONE}"]
    rows = [
        [
            cell(event.get("type")),
            cell(event.get("reason")),
            last_seen(event, now),
            message_of(event),
        ]
        for event in sorted(events, key=time_of)
    ]
    return _table("Events", ("TYPE", "REASON", "AGE", "MESSAGE"), rows, width)


def time_of(event: Object) -> str:
    """The last time it was seen, RFC 3339 text, which sorts by time."""
    series = event.get("series") or {}
    meta = event.get("metadata") or {}
    moment = (
        event.get("lastTimestamp")
        or series.get("lastObservedTime")
        or event.get("eventTime")
        or meta.get("creationTimestamp")
    )
    return str(moment or "")


def last_seen(event: Object, now: float) -> str:
    """``4m``, or ``4m (x12 over 9m)``."""
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    age = ago(time_of(event), now)
    if count == 1:
        return age
    first = event.get("firstTimestamp") or event.get("eventTime")
    return f"{age} (x{count} over {ago(first, now)})" if first else f"{age} (x{count})"


def message_of(event: Object) -> str:
    return " ".join(str(event.get("message") or event.get("note") or "").split())


UNKNOWN = "<unknown>"


def ago(text: Any, now: float | None = None) -> str:
    """The age of a time, ``<unknown>`` where there is none."""
    try:
        return span((time.time() if now is None else now) - moment(text))
    except (TypeError, ValueError):
        return UNKNOWN
