"""The calls of the cluster as columns on the wire, read strictly on both sides.

Errors of every reader: :class:`shared.codec.checked.Malformed`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from coordinator.cluster.events import ReportedUsage
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
from shared.codec.checked import Malformed
from shared.codec.packed import Count, Finite, Index, read

Texts = list[str]
_Phases = list[Annotated[int, Meta(ge=0, le=max(Phase).value)]]
_Answers = list[Annotated[int, Meta(ge=0, le=max(BindAnswer).value)]]
_Kinds = list[Annotated[int, Meta(ge=0, le=max(Report).value)]]


def bind_columns(r: BindRequests) -> list[Any]:
    return [r.tasks, r.uids, r.pods, r.nodes, r.durations, r.exit_codes]


def read_bind(columns: list[Any]) -> BindRequests:
    tasks, uids, pods, nodes, durations, exit_codes = read(
        columns, tuple[Texts, Texts, Texts, Texts, list[float | None], list[Index]], "bind"
    )
    _alike("bind", tasks, uids, pods, nodes, durations)
    if exit_codes:
        _alike("bind", tasks, exit_codes)
    return BindRequests(tasks, uids, pods, nodes, durations, exit_codes)


def read_bind_answers(columns: Any, count: int) -> BindAnswers:
    """``count``: number of tasks in the request."""
    answers, where, reasons = read(columns, tuple[_Answers, Texts, Texts], "bind answers")
    if reasons and len(reasons) != count:
        raise Malformed(f"bind reasons: {len(reasons)} for {count} tasks")
    if len(answers) != count or len(where) != count:
        raise Malformed(f"bind answers: {len(answers)} for {count} tasks")
    return BindAnswers(answers, where, reasons)


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
    tasks, uids, nodes, phases, token, highest = read(
        columns, tuple[Texts, Texts, Texts, _Phases, str, int], "listing"
    )
    _alike("listing", tasks, uids, nodes, phases)
    return Listed(tasks, uids, nodes, phases, token, highest)


def read_token(arguments: list[Any]) -> str:
    return read(arguments, tuple[str], "listing")[0]


def read_acknowledged(arguments: list[Any]) -> list[tuple[int, int]]:
    """Runs of jobs: (first jid, how many)."""
    return read(arguments, tuple[list[tuple[Count, Count]]], "acknowledged")[0]


def read_measured(arguments: list[Any]) -> ReportedUsage:
    """How busy nodes are."""
    usage, begins, ends = read(
        arguments, tuple[dict[str, dict[str, Finite]], Finite, Finite | None], "measured"
    )
    return ReportedUsage(usage, begins, ends)


def read_nothing(value: Any) -> None:
    if value is not None:
        raise Malformed(f"answer: nothing wanted, got {type(value).__name__}")


def read_look(arguments: list[Any]) -> list[str]:
    return read(arguments, tuple[Texts], "look")[0]


def read_foreign(value: Any) -> Foreign:
    return read(value, dict[str, dict[str, Count]], "foreign")


def read_delete(arguments: list[Any]) -> tuple[list[str], list[str] | None]:
    """(tasks, incarnations; None: whichever is current)."""
    tasks, uids = read(arguments, tuple[Texts, Texts | None], "delete")
    if uids is not None:
        _alike("delete", tasks, uids)
    return tasks, uids


def read_reports_question(arguments: list[Any]) -> tuple[int, float]:
    """(number of the last report received, seconds to wait)."""
    return read(arguments, tuple[Count, Finite], "reports")


def report_columns(r: Reports) -> list[Any]:
    return [r.last, r.kinds, r.tasks, r.nodes, r.incarnations]


def read_reports(columns: Any) -> Reports:
    last, kinds, tasks, nodes, incarnations = read(
        columns, tuple[Count, _Kinds, Texts, Texts, dict[Count, Count]], "reports"
    )
    _alike("reports", kinds, tasks, nodes)
    return Reports(last, kinds, tasks, nodes, incarnations)


def read_position(value: Any) -> str:
    return read(value, str, "position")


def read_deleted(value: Any) -> list[str]:
    return read(value, Texts, "deleted")


def _alike(at: str, *columns: list[Any]) -> None:
    if len(set(map(len, columns))) > 1:
        raise Malformed(f"{at}: its columns differ in length")
