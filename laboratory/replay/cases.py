"""The inputs of a replay: scenarios and dumps from files, each with its policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laboratory.replay.dump import Dump, read_dump
from laboratory.replay.kai.recorded import read_kai_recorded, within_pool
from laboratory.replay.kai.scenario import KaiScenario, read_kai_scenario
from laboratory.replay.recorded import (
    Recorded,
    RecordError,
    read_recorded,
    readable,
)
from laboratory.replay.scenario import RecordedScenario, ScenarioError, read_scenario
from shard_worker.view.mode import Mode
from shared.errors import shown
from shared.manifests.kai.queue_usage import UsageParts
from shared.policy.dialect import dialect_of
from shared.policy.model import Dialect, Policy, PolicyError
from shared.policy.volcano import DEFAULT_POLICY

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded cluster and the policy to replay it with."""

    id: str
    policy: Policy
    recorded: Recorded
    mode: Mode = Mode.NONE
    own_rows: Sequence[int] | None = None
    """Rows of the session's own shard; None = all."""
    now: float = 0.0
    """Seconds since 1970."""
    notes: list[str] = field(default_factory=list)
    """Notes for people about assumptions made while reading."""
    dump: bool = False
    """Read from Kubernetes objects, not from a scenario."""
    in_session: Recorded | None = None
    """The cluster as one session sees it, where that is less: a service knows by itself which
    objects are of another node pool."""
    kai: KaiScenario | None = None
    """The scenario, where its policy is KAI's: it is replayed round by round."""


def read_cases(
    sources: Sequence[tuple[str, Sequence[Any]]],
    *,
    policy: Policy | None = None,
    only: str = "",
    now: float | None = None,
    usage: UsageParts | None = None,
) -> list[Case]:
    """(file, its documents) -> cases: each scenario is one, all objects together are one cluster.
    ``policy`` overrides those in files, ``usage`` what a dump says of it. Raises ScenarioError,
    RecordError, PolicyError; messages begin with the file."""
    cases: list[Case] = []
    objects: list[Json] = []
    files: list[str] = []
    for file, documents in sources:
        for value in _values(file, documents):
            if "kind" in value:
                objects += _opened(file, value)
                files += [file] if file not in files else []
            elif only in str(value.get("id", "")):
                cases.append(_scenario(file, value, policy))
    if objects and only in ", ".join(files):
        cases.append(_cluster(", ".join(files), objects, policy, now, usage))
    return cases


def _values(file: str, documents: Sequence[Any]) -> Iterator[Json]:
    """The values in a file, with lists of scenarios expanded."""
    for document in documents:
        for value in document if isinstance(document, list) else [document]:
            if value is None:
                continue
            if not isinstance(value, dict):
                raise ScenarioError(
                    f"{file}: {shown(value)} is neither an object nor a scenario; give what "
                    "kubectl get -o yaml writes, or a mapping with policy and cluster"
                )
            yield value


def _opened(file: str, value: Json) -> Iterator[Json]:
    """The objects of a list, each with its kind."""
    kind, items = value.get("kind"), value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in value):
        yield value
        return
    if not isinstance(items, list):
        raise RecordError(f"{file}: {kind}: items: {shown(items)} is not a list; give the objects")
    head = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise RecordError(f"{file}: {kind}: items[{i}]: {shown(item)} is not an object")
        yield from _opened(file, item if "kind" in item else head | item)


def _scenario(file: str, value: Json, policy: Policy | None) -> Case:
    try:
        if _is_kai(value, policy):
            return _kai_scenario(value, policy)
        if policy is not None and "policy" not in value:
            value = {**value, "policy": _ANY_POLICY}
        read: RecordedScenario = read_scenario(value)
    except PolicyError as error:
        raise PolicyError(f"{file}: {value.get('id', '')}: {error}") from None
    except (ScenarioError, RecordError) as error:
        raise ScenarioError(f"{file}: {error}") from None
    notes = _some(read.recorded.left_out)
    under = policy or read.policy
    return Case(read.id, under, read.recorded, read.mode, read.own_rows, read.now, notes)


def _is_kai(value: Json, policy: Policy | None) -> bool:
    """Whether the scenario is decided by KAI's rules: its policy says it, or the other one."""
    if policy is not None:
        return policy.dialect is Dialect.KAI
    written = value.get("policy")
    return isinstance(written, Mapping) and dialect_of(written)[0] is Dialect.KAI


def _kai_scenario(value: Json, policy: Policy | None) -> Case:
    scenario = read_kai_scenario(value, policy=policy)
    read = read_kai_recorded(scenario.items, scenario.now, policy=scenario.policy)
    return Case(scenario.id, scenario.policy, read.recorded, now=scenario.now, kai=scenario)


_ANY_POLICY: Mapping[str, object] = {
    "actions": "allocate",
    "tiers": [{"plugins": [{"name": "gang"}]}],
}


def _cluster(
    files: str,
    objects: Sequence[Json],
    policy: Policy | None,
    now: float | None,
    usage: UsageParts | None,
) -> Case:
    try:
        dump = read_dump(objects, policy)
        moment = dump.now if now is None else now
        recorded, in_session = _read(dump, moment)
    except RecordError as error:
        raise RecordError(
            "\n".join(f"{files}: {line}" for line in str(error).split("\n"))
        ) from None
    except PolicyError as error:
        raise PolicyError(f"{files}: {error}") from None
    used = dump.usage if usage is None else usage
    for read in filter(None, (recorded, in_session)):
        read.objects.queue_usage = used or {}
    return Case(
        files,
        dump.policy,
        recorded,
        now=moment,
        notes=_notes(dump, recorded, is_default=dump.policy is DEFAULT_POLICY, used=used),
        dump=True,
        in_session=in_session,
    )


def _read(dump: Dump, now: float) -> tuple[Recorded, Recorded | None]:
    """The cluster of a dump, and what a session sees of it if that is less."""
    if dump.policy.dialect is Dialect.VOLCANO:
        return read_recorded(dump.items, now, foreign=dump.foreign), None
    items, unread, lines = readable(dump.items)
    under, foreign = dump.policy, dump.foreign | unread
    whole = read_kai_recorded(items, now, policy=under, foreign=foreign).recorded
    whole.left_out[:0] = lines
    inside, outside = within_pool(items, under)
    if len(inside) == len(items) and not outside:
        return whole, None
    return whole, read_kai_recorded(inside, now, policy=under, foreign=foreign | outside).recorded


_MOST = 20


def _some(lines: Sequence[str]) -> list[str]:
    """The first lines, and the number of further ones."""
    more = len(lines) - _MOST
    return [*lines[:_MOST], *([f"and {more} more objects that are not read"] if more > 0 else [])]


def _notes(
    dump: Dump, recorded: Recorded, *, is_default: bool, used: UsageParts | None
) -> list[str]:
    notes = [f"left out: {count} {kind}" for kind, count in sorted(dump.left_out.items())]
    notes += [*dump.unread, *_some(recorded.left_out)]
    if dump.foreign:
        notes.append(f"{len(dump.foreign)} pods of other schedulers only use their nodes")
    if is_default:
        notes.append("no policy was given: the default one counts (--policy FILE names another)")
    if used is None and dump.policy.kai is not None and dump.policy.kai.usage is not None:
        notes.append(
            "usageDBConfig: it does not say what queues used, so shares are as if nobody had used "
            "anything (--usage FILE says it)"
        )
    for notice in recorded.admission.notices:
        many = f" ({notice.count} of them)" if notice.count > 1 else ""
        notes.append(f"{notice.kind} {notice.name}{many}: {notice.message}")
    return notes
