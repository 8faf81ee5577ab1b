"""Formats of published traces, and of Slurm's accounting, that are known by their header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Format:
    signs: frozenset[str]
    """Columns by which its header is recognised."""
    columns: Mapping[str, str]
    """Column of a week -> expression of the file's columns."""
    first_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of a week -> columns that a file may have, of which the first that is there counts."""
    not_steps: str = ""
    """Column of names; a row whose name has a dot is a step of a job that has a row of its own."""

    def chosen(self, header: frozenset[str]) -> dict[str, str]:
        """Column of a week -> expression, for a file with this header."""
        found = {
            name: next((column for column in columns if column in header), "")
            for name, columns in self.first_of.items()
        }
        return dict(self.columns) | {name: column for name, column in found.items() if column}


def format_of(header: frozenset[str]) -> Format | None:
    return next((each for each in FORMATS.values() if each.signs <= header), None)


_SENSETIME = {
    "name": "job_id",
    "submit": "submit_time",
    "pods": "node_num",
    "gpus": "gpu_num / node_num",
    "cpu": "cpu_num / node_num",
    "user": "user",
}
"""Of the clusters of Helios and of Acme, whose column queue has seconds of waiting."""
FORMATS: Mapping[str, Format] = {
    "Philly (ElasticFlow)": Format(
        frozenset({"timestamp", "duration", "num_gpus", "cluster"}),
        {"submit": "timestamp", "gpus": "num_gpus", "queue": "cluster"},
    ),
    "openb": Format(
        frozenset({"cpu_milli", "num_gpu", "gpu_milli", "creation_time", "deletion_time"}),
        {
            "submit": "creation_time",
            "duration": "deletion_time - creation_time",
            "gpus": "num_gpu * gpu_milli / 1000",
            "cpu": "cpu_milli milli",
            "memory": "memory_mib MiB",
            "queue": "qos",
        },
    ),
    "Muri": Format(
        frozenset({"job_id", "num_gpu", "submit_time", "iteration_time"}),
        {
            "name": "job_id",
            "submit": "submit_time ms",
            "duration": "duration ms",
            "gpus": "num_gpu",
            "priority": "priority",
        },
    ),
    "Helios": Format(
        frozenset({"job_id", "vc", "gpu_num", "cpu_num", "node_num", "submit_time"}),
        _SENSETIME | {"queue": "vc"},
    ),
    "Acme": Format(
        frozenset({"job_id", "type", "gpu_num", "cpu_num", "node_num", "submit_time"}),
        _SENSETIME | {"queue": "type"},
    ),
    "PAI": Format(
        frozenset({"job_id", "num_inst", "num_gpu", "num_cpu", "submit_time"}),
        {
            "name": "job_id",
            "submit": "submit_time",
            "pods": "num_inst",
            "gpus": "num_gpu",
            "cpu": "num_cpu",
        },
    ),
    "Slurm": Format(
        frozenset({"JobID", "Submit", "AllocTRES"}),
        {
            "name": "JobID",
            "submit": "Submit",
            "pods": "AllocTRES[node]",
            "gpus": "AllocTRES[gres/gpu] / AllocTRES[node]",
            "cpu": "AllocTRES[cpu] / AllocTRES[node]",
            "memory": "AllocTRES[mem] / AllocTRES[node]",
        },
        first_of={
            "duration": ("ElapsedRaw", "Elapsed"),
            "queue": ("Partition", "Account"),
            "user": ("User", "UID"),
        },
        not_steps="JobID",
    ),
}
"""Name of the format -> how its files are read."""
