"""Jobs as bytes: what the ledger stores of them beside the states of their tasks."""

from __future__ import annotations

from dataclasses import replace

from shared.codec.checked import boolean, count, integer, number, pack_sealed, text
from shared.codec.plain import plain, reader
from shared.messages.messages import Group
from shared.model.model import Job, Pairs, Role
from shared.model.topology import SubGroupPolicy, Topology
from shared.records.specs_base import FORMAT, each, opened, requests, row

_NO_MORE: tuple[object, ...] = ((), (), "", None, (), "", True)
_pairs = reader(Pairs)
_topology = reader(Topology | None)
_sub_groups = reader(tuple[SubGroupPolicy, ...])


def encode_job(job: Job) -> bytes:
    return pack_sealed(
        b"job",
        (
            FORMAT,
            job.jid,
            job.namespace,
            job.name,
            job.kind,
            job.uid,
            job.queue,
            job.created,
            job.priority,
            [(g.parent, g.minimum, g.held) for g in job.groups],
            [_columns(role) for role in job.roles],
            job.spec,
            job.dangling,
            job.role_minima,
            job.min_resources,
            _more_of(job),
        ),
    )


def _more_of(job: Job) -> tuple[object, ...] | None:
    """The rarely used fields; None where all are empty, as in most jobs of one pod."""
    has_extra = job.labels or job.annotations or job.phase or job.topology or job.sub_groups
    if not (has_extra or job.priority_class) and job.preempts:
        return None
    return (
        job.labels,
        job.annotations,
        job.phase,
        plain(job.topology),
        plain(job.sub_groups),
        job.priority_class,
        job.preempts,
    )


def _columns(r: Role) -> tuple[object, ...]:
    """The exit code and other rarely used fields of a role, only where one is set."""
    base = (r.name, r.cid, r.first, r.count, r.group, r.priority, r.names, r.duration)
    if not (
        r.labels or r.annotations or r.gated or r.created or r.uids or r.priority_class or r.start
    ):
        return (*base, r.exit_code) if r.exit_code else base
    more = (
        r.labels,
        r.annotations,
        r.gated,
        r.own_gate,
        r.created,
        r.uids,
        r.priority_class,
        r.start,
    )
    return (*base, r.exit_code, more)


def decode_job(data: bytes) -> Job:
    (
        jid,
        namespace,
        name,
        kind,
        uid,
        queue,
        created,
        priority,
        groups,
        roles,
        spec,
        dangling,
        role_minima,
        min_resources,
        more,
    ) = opened(data, "job", 15, before=14)
    extra = _NO_MORE if more is None else row(more, "job.more", len(_NO_MORE))
    labels, annotations, phase, topology, sub_groups, priority_class, preempts = extra
    return Job(
        jid=count(jid, "job.jid"),
        namespace=text(namespace, "job.namespace"),
        name=text(name, "job.name"),
        kind=text(kind, "job.kind"),
        uid=text(uid, "job.uid"),
        queue=text(queue, "job.queue"),
        created=number(created, "job.created"),
        priority=integer(priority, "job.priority"),
        groups=each(groups, "job.groups", _group),
        roles=each(roles, "job.roles", _role),
        spec=count(spec, "job.spec"),
        dangling=boolean(dangling, "job.dangling"),
        role_minima=each(role_minima, "job.role_minima", _minimum),
        min_resources=None
        if min_resources is None
        else requests(min_resources, "job.min_resources"),
        labels=_pairs(labels, "job.labels"),
        annotations=_pairs(annotations, "job.annotations"),
        phase=text(phase, "job.phase"),
        topology=_topology(topology, "job.topology"),
        sub_groups=_sub_groups(sub_groups, "job.sub_groups"),
        priority_class=text(priority_class, "job.priority_class"),
        preempts=boolean(preempts, "job.preempts"),
    )


def _minimum(value: object, at: str) -> tuple[str, int]:
    role, minimum = row(value, at, 2)
    return text(role, at), integer(minimum, at)


def _group(value: object, at: str) -> Group:
    parent, minimum, members = row(value, at, 3)
    return Group(integer(parent, at), integer(minimum, at), integer(members, at))


def _role(value: object, at: str) -> Role:
    size = len(value) if type(value) is tuple and len(value) in (9, 10) else 8
    fields = row(value, at, size)
    name, cid, first, members, group, priority, names, duration = fields[:8]
    role = Role(
        name=text(name, at),
        cid=count(cid, at),
        first=count(first, at),
        count=count(members, at),
        group=count(group, at),
        priority=integer(priority, at),
        names=each(names, at, text),
        duration=None if duration is None else number(duration, at),
        exit_code=integer(fields[8], at) if size > 8 else 0,
    )
    return _with_more(role, fields[9], at) if size > 9 else role


def _with_more(role: Role, value: object, at: str) -> Role:
    labels, annotations, gated, own_gate, created, uids, priority_class, start = row(value, at, 8)
    return replace(
        role,
        labels=_pairs(labels, at),
        annotations=_pairs(annotations, at),
        gated=boolean(gated, at),
        own_gate=boolean(own_gate, at),
        created=each(created, at, number),
        uids=each(uids, at, text),
        priority_class=text(priority_class, at),
        start=count(start, at),
    )
