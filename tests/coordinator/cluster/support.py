"""Short ways to talk to a cluster in tests."""

from __future__ import annotations

from coordinator.cluster.protocol import BindRequests, Report, Reports


def asking(
    places: dict[str, str], *, duration: float | None = 10.0, uid: str = "u1"
) -> BindRequests:
    """Bind each task to a node, all of one incarnation."""
    tasks = list(places)
    return BindRequests(
        tasks=tasks,
        uids=[uid] * len(tasks),
        pods=[f"default/{task}" for task in tasks],
        nodes=list(places.values()),
        durations=[duration] * len(tasks),
    )


def report_rows(reports: Reports) -> list[tuple[str, str, str]]:
    """(kind, task, node) of each report."""
    columns = zip(reports.kinds, reports.tasks, reports.nodes, strict=True)
    return [(Report(kind).name, task, node) for kind, task, node in columns]
