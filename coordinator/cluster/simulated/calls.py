"""The calls of the cluster as columns on the wire, read strictly on both sides.

Errors of every reader: :class:`shared.codec.checked.Malformed`.
"""

from __future__ import annotations

from typing import Any

from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    Foreign,
    Listed,
    Phase,
    Report,
    Reports,
)
from shared.codec.checked import (
    Malformed,
    count,
    each,
    indices,
    integer,
    mapping,
    number,
    row,
    text,
    texts,
    wrong,
)

_DURATIONS = frozenset((int, float, type(None)))


def bind_columns(r: BindRequests) -> list[Any]:
    return [r.tasks, r.uids, r.pods, r.nodes, r.durations, r.exit_codes]


def read_bind(columns: list[Any]) -> BindRequests:
    tasks, uids, pods, nodes, durations, exit_codes = row(columns, "bind", 6)
    requests = BindRequests(
        tasks=texts(tasks, "bind.tasks"),
        uids=texts(uids, "bind.uids"),
        pods=texts(pods, "bind.pods"),
        nodes=texts(nodes, "bind.nodes"),
        durations=_durations(durations),
        exit_codes=indices(exit_codes, "bind.exit_codes"),
    )
    _alike("bind", tasks, uids, pods, nodes, durations)
    if exit_codes:
        _alike("bind", tasks, exit_codes)
    return requests


def read_bind_answers(columns: Any, count: int) -> BindAnswers:
    """``count``: number of tasks in the request."""
    answers, where, reasons = row(columns, "bind answers", 3)
    result = BindAnswers(
        indices(answers, "bind answers"),
        texts(where, "bind answers"),
        texts(reasons, "bind reasons"),
    )
    if reasons and len(reasons) != count:
        raise Malformed(f"bind reasons: {len(reasons)} for {count} tasks")
    if len(answers) != count or len(where) != count:
        raise Malformed(f"bind answers: {len(answers)} for {count} tasks")
    if answers and max(answers) > max(BindAnswer):
        raise Malformed(f"bind answers: {max(answers)} is no answer")
    return result


def bind_answer_columns(a: BindAnswers) -> list[Any]:
    return [a.answers, a.where, a.reasons]


def listed_columns(listing: Listed) -> list[Any]:
    return [
        listing.tasks,
        listing.uids,
        listing.nodes,
        listing.phases,
        listing.token,
        listing.highest,
    ]


def read_listed(columns: Any) -> Listed:
    tasks, uids, nodes, phases, token, highest = row(columns, "listing", 6)
    listing = Listed(
        tasks=texts(tasks, "listing.tasks"),
        uids=texts(uids, "listing.uids"),
        nodes=texts(nodes, "listing.nodes"),
        phases=indices(phases, "listing.phases"),
        token=text(token, "listing.token"),
        highest=integer(highest, "listing.highest"),
    )
    _alike("listing", tasks, uids, nodes, phases)
    if phases and max(phases) > max(Phase):
        raise Malformed(f"listing: {max(phases)} is no phase of a task")
    return listing


def read_token(arguments: list[Any]) -> str:
    return text(row(arguments, "listing", 1)[0], "listing.token")


def read_acknowledged(arguments: list[Any]) -> list[tuple[int, int]]:
    """Runs of jobs: (first jid, how many)."""
    return each(row(arguments, "acknowledged", 1)[0], "acknowledged.jobs", _run)


def _run(value: object, at: str) -> tuple[int, int]:
    first, many = row(value, at, 2)
    return count(first, at), count(many, at)


def read_nothing(value: Any) -> None:
    if value is not None:
        raise wrong(value, "answer", "nothing")


def read_look(arguments: list[Any]) -> list[str]:
    return texts(row(arguments, "look", 1)[0], "look.tasks")


def read_foreign(value: Any) -> Foreign:
    return mapping(
        value,
        "foreign",
        text,
        lambda used, at: mapping(used, at, text, count),
    )


def read_delete(arguments: list[Any]) -> tuple[list[str], list[str] | None]:
    """(tasks, incarnations; None: whichever is current)."""
    tasks, uids = row(arguments, "delete", 2)
    if uids is not None:
        _alike("delete", texts(tasks, "delete.tasks"), texts(uids, "delete.uids"))
    return texts(tasks, "delete.tasks"), uids


def read_reports_question(arguments: list[Any]) -> tuple[int, float]:
    """(number of the last report received, seconds to wait)."""
    after, wait = row(arguments, "reports", 2)
    return count(after, "reports.after"), number(wait, "reports.wait")


def report_columns(r: Reports) -> list[Any]:
    return [r.last, r.kinds, r.tasks, r.nodes, r.lives]


def read_reports(columns: Any) -> Reports:
    last, kinds, tasks, nodes, lives = row(columns, "reports", 5)
    reports = Reports(
        last=count(last, "reports.last"),
        kinds=indices(kinds, "reports.kinds"),
        tasks=texts(tasks, "reports.tasks"),
        nodes=texts(nodes, "reports.nodes"),
        lives=mapping(lives, "reports.lives", count, count),
    )
    _alike("reports", kinds, tasks, nodes)
    if kinds and max(kinds) > max(Report):
        raise Malformed(f"reports: {max(kinds)} is no kind of report")
    return reports


def read_position(value: Any) -> str:
    return text(value, "position")


def read_deleted(value: Any) -> list[str]:
    return texts(value, "deleted")


def _durations(value: Any) -> list[float | None]:
    if type(value) is not list or not set(map(type, value)) <= _DURATIONS:
        raise Malformed("bind.durations: array of numbers or nothing wanted")
    durations: list[float | None] = value
    return durations


def _alike(at: str, *columns: list[Any]) -> None:
    if len(set(map(len, columns))) > 1:
        raise Malformed(f"{at}: its columns differ in length")
