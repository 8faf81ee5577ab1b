"""Reports on tasks, numbered, kept until the coordinator has recorded them."""

from __future__ import annotations

from collections import deque

from coordinator.cluster.kubernetes.state.pods import UNBOUND, PodRow
from coordinator.cluster.protocol import Phase, Report, Reports

PART = 2000
"""Reports of one answer."""


class ReportLog:
    def __init__(self) -> None:
        self.last = 0
        self.recorded = 0
        """The coordinator has recorded all up to this number."""
        self._reports: deque[tuple[int, int, str, str, int]] = deque()

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, kind: Report, row: PodRow, node: str) -> None:
        self.last += 1
        self._reports.append((self.last, kind, row.task, node, row.incarnation))

    def after(self, number: int) -> Reports:
        """The next reports; those up to ``number`` are recorded and forgotten."""
        self.recorded = max(self.recorded, number)
        while self._reports and self._reports[0][0] <= number:
            self._reports.popleft()
        part = [self._reports[i] for i in range(min(PART, len(self._reports)))]
        return Reports(
            last=part[-1][0] if part else number,
            kinds=[kind for _, kind, *_ in part],
            tasks=[task for _, _, task, *_ in part],
            nodes=[node for *_, node, _ in part],
            incarnations={
                i: incarnation for i, (*_, incarnation) in enumerate(part) if incarnation
            },
        )

    def unread_ends(self) -> set[tuple[str, int]]:
        """Tasks, with their incarnations, whose end the coordinator has not recorded yet."""
        return {
            (task, incarnation)
            for _, kind, task, _, incarnation in self._reports
            if kind in (Report.SUCCEEDED, Report.FAILED)
        }


def report(row: PodRow, log: ReportLog, *, node: str) -> None:
    """Report what the coordinator does not know of the task yet. ``node``: where it is, "" for
    nowhere."""
    if row.jid < 0:
        return
    if node and node != row.reported_node:
        log.add(Report.BOUND, row, node)
        row.reported_node, row.reported = node, Phase.BOUND
    if row.reported == UNBOUND or row.reported >= Phase.SUCCEEDED:
        return
    if row.gone and row.phase not in (Phase.SUCCEEDED, Phase.FAILED):
        _step(row, log, Report.FAILED, Phase.FAILED)
        return
    if not row.node:
        return  # it is on a node in our books alone
    match row.phase:
        case Phase.SUCCEEDED:
            _step(row, log, Report.SUCCEEDED, Phase.SUCCEEDED)
        case Phase.FAILED:
            _step(row, log, Report.FAILED, Phase.FAILED)
        case Phase.RUNNING if not row.leaving:
            _step(row, log, Report.STARTED, Phase.RUNNING)
        case _:
            if row.leaving:
                _step(row, log, Report.RELEASING, Phase.RELEASING)


def _step(row: PodRow, log: ReportLog, kind: Report, phase: Phase) -> None:
    if row.reported < phase:
        log.add(kind, row, row.reported_node)
        row.reported = phase
