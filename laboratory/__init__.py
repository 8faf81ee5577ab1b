"""Runs that judge the service: demo, bench, chaos, replay, scaling, lab, seeded runs, the checker.

The Python API of the laboratory is ``from laboratory import Cluster, Week, run``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laboratory.lab.cluster import Cluster
    from laboratory.lab.play import Played, run
    from laboratory.lab.questions.fewest_nodes import fewest_nodes
    from laboratory.lab.questions.search import search
    from laboratory.lab.week import Week

__all__ = ["Cluster", "Played", "Week", "fewest_nodes", "run", "search"]


def __getattr__(name: str) -> Any:
    """Import the API when it is used: the command starts without numpy."""
    from importlib import import_module

    modules = {
        "Cluster": "cluster",
        "Played": "play",
        "Week": "week",
        "fewest_nodes": "questions.fewest_nodes",
        "run": "play",
        "search": "questions.search",
    }
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"laboratory.lab.{modules[name]}"), name)
