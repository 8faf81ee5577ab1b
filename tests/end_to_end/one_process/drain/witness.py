"""Facts about a drain in a history, read without the checker: the lowest number of running pods,
and the tasks that left in one statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class DrainWitness:
    def __init__(self, path: Path) -> None:
        self._events: list[Event] = [json.loads(line) for line in path.read_bytes().splitlines()]
        self._names = {
            job["jid"]: job["key"].partition("/")[2]
            for event in self._events
            if event["ev"] == "job"
            for job in event["jobs"]
        }

    def fewest_running(self, prefix: str, *, since: int) -> int:
        """The lowest number of pods in the cluster that run and do not stop, of jobs whose name
        begins with ``prefix``, from the moment when there were ``since`` of them."""
        running: set[str] = set()
        lowest: int | None = None
        for event in self._events:
            if event["src"] != "cluster" or "tasks" not in event:
                continue
            for task, uid in zip(event["tasks"], event["uids"], strict=True):
                if not self._names[int(task.split(".")[0])].startswith(prefix):
                    continue
                if event["ev"] == "start":
                    running.add(f"{task} {uid}")
                elif event["ev"] not in ("bind", "delete"):
                    running.discard(f"{task} {uid}")
            if lowest is not None or len(running) == since:
                lowest = len(running) if lowest is None else min(lowest, len(running))
        assert lowest is not None, f"there were never {since} pods of {prefix}"
        return lowest

    def left_together(self) -> dict[str, list[int]]:
        """Job -> how many of its pods left in each statement that somebody asked for."""
        left: dict[str, list[int]] = {}
        for event in self._events:
            for statement in event.get("statements", ()):
                if statement.get("reason", "").startswith("evict"):
                    name = self._names[statement["jid"]]
                    count = sum(len(run[4]) for run in statement["evict"])
                    left.setdefault(name, []).append(count)
        return left
