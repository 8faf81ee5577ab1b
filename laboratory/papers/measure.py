"""Measure a published table again."""

from __future__ import annotations

from laboratory.papers.paper import PaperError, PaperRun, PaperTable, experiment
from shared.codec.packed import replace


def measured_table(paper: str, run: PaperRun) -> PaperTable:
    """The paper's table with our figures of this run. Raises :class:`PaperError`."""
    module, table = experiment(paper), PaperTable.committed(paper)
    folder = run.data / module.FOLDER
    if not folder.is_dir():
        raise PaperError(
            f"--data: {run.data} has no folder {module.FOLDER}; get the files from {module.DATA} "
            f"into {folder}, or name another folder with --data"
        )
    ours = module.measure(run)
    figures = (
        replace(figure, ours=ours.get((figure.case, figure.measure))) for figure in table.figures
    )
    return replace(table, figures=tuple(figures))
