"""A published table, and the measured one beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

NAMES = ("fgd", "kueue")
"""Each is the folder of this package with its module ``experiment``, and a file of results."""
FORMAT = 1


class PaperError(Exception):
    """The table cannot be measured. The message is complete, with the remedy."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell of the table."""

    case: str
    """Its row: a policy, a configuration, a trace."""
    measure: str
    """Its column, with the unit."""
    published: float | None
    """None: the publication does not have it."""
    ours: float | None = None
    """None: not measured yet."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """The table of one publication as its file has it."""

    paper: str
    title: str
    source: str
    """The publication, and where its figures were taken from."""
    command: str
    """The command that made the measured figures."""
    figures: tuple[Figure, ...]
    differences: tuple[str, ...]
    """Differences of method from the publication, a sentence each."""

    @classmethod
    def committed(cls, paper: str) -> PaperTable:
        """The table as it was measured for the documentation."""
        body = json.loads(Path(__file__).with_name(f"{paper}.json").read_text())
        figures = tuple(Figure(**figure) for figure in body.pop("figures"))
        del body["format"]
        return cls(**body | {"figures": figures, "differences": tuple(body["differences"])})

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


@dataclass(frozen=True, slots=True)
class PaperRun:
    """The inputs of one measurement."""

    data: Path
    """A folder with the folders of the traces."""
    seeds: Sequence[int]
    processes: int
    progress: Callable[[float], None]
    """Called with the fraction that is done."""


class Measuring(Protocol):
    """The module ``experiment`` of a paper."""

    FOLDER: str
    """The data's folder."""
    SEEDS: tuple[int, ...]
    """By default."""
    DATA: str
    """Where the data can be had."""

    def measure(self, run: PaperRun) -> dict[tuple[str, str], float]:
        """(case, measure) -> our figure. Raises :class:`PaperError`."""
        ...


def experiment(paper: str) -> Measuring:
    module: Measuring = import_module(f"laboratory.papers.{paper}.experiment")
    return module
