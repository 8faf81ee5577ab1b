"""Jobs as gangs of equal tasks, with one GPU or processor each: the columns of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their submission; the arrays run in parallel."""

    submit: NDArray[np.float64]
    """Seconds after the first submission."""
    duration: NDArray[np.float64]
    """Seconds that every task of the job runs."""
    width: NDArray[np.int64]
    """Tasks of the job, one GPU or processor each; all of them or none."""
    queue: NDArray[np.int64]
    """Index into ``queues``."""
    queues: tuple[str, ...]
    """Queue names as written, in the order in which they first appear."""
    unusable: dict[str, int] = field(default_factory=dict)
    """Reason -> number of rows left out because they contain no job that could run."""

    @property
    def jobs(self) -> int:
        return len(self.width)

    @property
    def tasks(self) -> int:
        return int(self.width.sum())
