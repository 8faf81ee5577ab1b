"""Evidence in the history of a chaos run: recovery times, lost acknowledged work, commits under
void epochs.

The promises themselves are judged by the checker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from laboratory.chaos.faults import InjectedFault
from laboratory.chaos.plan import InjectionKind
from shared.ledger.protocol import COORDINATOR


@dataclass(slots=True)
class Evidence:
    """Times are seconds since 1970, in ascending order."""

    commits: list[float] = field(default_factory=list)
    """Commits with accepted statements, of all shards."""
    by_shard: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Shard -> (time, epoch) of its commits."""
    began: dict[tuple[str, str], float] = field(default_factory=dict)
    """(writer, epoch) -> when the epoch began."""
    leaders: list[float] = field(default_factory=list)
    """Starts of leaderships."""
    binds: list[float] = field(default_factory=list)
    """Binds requested from the cluster."""
    void: list[str] = field(default_factory=list)
    """Commits logged after a newer epoch of their writer began."""
    jobs: dict[str, int] = field(default_factory=dict)
    """Key -> number of times a job of this name was created."""
    deletions: dict[str, int] = field(default_factory=dict)
    """Key -> number of times it was deleted."""
    submitted: dict[int, float] = field(default_factory=dict)
    """jid -> time when it was stored."""
    placed: dict[int, float] = field(default_factory=dict)
    """jid -> time when its first statement was accepted."""

    # --- when work went on --------------------------------------------------------------------

    def recovery(self, struck: InjectedFault) -> float | None:
        """Seconds from a fault until its victim, or a replacement, worked again. None if that is
        not in the history, or if a pause was too short for a takeover."""
        end = self._end(struck)
        return None if end is None else end - struck.at

    def _end(self, struck: InjectedFault) -> float | None:
        if struck.blow.kind is InjectionKind.REWRITE:
            return None  # nothing stands still
        pause = struck.blow.kind is InjectionKind.PAUSE
        after = struck.over
        match struck.blow.target:
            case "worker":
                return self._worker_again(struck)
            case "leader":
                led = _first(self.leaders, struck.at)
                if pause and (led is None or led > after):
                    led = after
                return None if led is None else _first(self.commits, led)
            case "ray":
                return _first(self.commits, after) if pause else self._new_worker(struck.at)
            case "ledger":
                return _first(self.commits, after)
            case "cluster" | "api-server" | "etcd":
                return _first(self.binds, after)
            case _:
                return None

    def _worker_again(self, struck: InjectedFault) -> float | None:
        """The shard's first commit under another epoch, or under its own after a pause."""
        for at, epoch in self.by_shard.get(str(struck.shard), ()):
            if at > struck.at and (epoch != struck.epoch or at > struck.over > struck.at):
                return at
        return None

    def _new_worker(self, lost: float) -> float | None:
        """The first commit under an epoch of a worker that began after ``lost``: what those of that
        moment were still about to commit is no recovery."""
        new = [
            at
            for shard, commits in self.by_shard.items()
            for at, epoch in commits
            if self.began.get((shard, epoch), 0.0) > lost
        ]
        return min(new, default=None)

    # --- what was lost ------------------------------------------------------------------------

    def lost(self, created: Iterable[str], deleted: Iterable[str]) -> Iterator[str]:
        """Acknowledged operations that the ledger does not have. ``created``, ``deleted``: keys of
        jobs whose creation or deletion was acknowledged."""
        for key in created:
            if key not in self.jobs:
                yield f"job {key} was acknowledged and is not in the ledger"
        for key in deleted:
            if key in self.jobs and key not in self.deletions:
                yield f"the deletion of job {key} was acknowledged and is not in the ledger"


def read_evidence(path: Path) -> Evidence:
    """Read a whole history once; an incomplete last line is left out. Raises OSError."""
    evidence = Evidence()
    epochs: dict[str, str] = {}
    names: dict[int, str] = {}
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                event: dict[str, Any] = orjson.loads(line)
                _take(evidence, event, epochs, names)
    return evidence


def _take(
    evidence: Evidence, event: dict[str, Any], epochs: dict[str, str], names: dict[int, str]
) -> None:
    match event["ev"]:
        case "epoch":
            epochs[event["writer"]] = event["epoch"]
            evidence.began[event["writer"], event["epoch"]] = event["t"]
            if event["writer"] == COORDINATOR:
                evidence.leaders.append(event["t"])
        case "commit":
            writer, epoch = event["writer"], event["epoch"]
            if epoch != epochs.get(writer, epoch):
                evidence.void.append(
                    f"shard {writer} committed under epoch {epoch} ({event['id']})"
                )
            evidence.commits.append(event["t"])
            for statement in event.get("statements", ()):
                evidence.placed.setdefault(statement["jid"], event["t"])
            evidence.by_shard.setdefault(writer, []).append((event["t"], epoch))
        case "bind" if event["src"] == "cluster":
            evidence.binds.append(event["t"])
        case "job":
            for job in event["jobs"]:
                if job["jid"] not in names:
                    names[job["jid"]] = job["key"]
                    evidence.jobs[job["key"]] = evidence.jobs.get(job["key"], 0) + 1
                    evidence.submitted[job["jid"]] = event["t"]
        case "job_gone":
            for jid in event["jids"]:
                if key := names.get(jid):
                    evidence.deletions[key] = evidence.deletions.get(key, 0) + 1
        case _:
            pass


def _first(times: list[float], after: float) -> float | None:
    """The first time at or after a moment."""
    at = bisect_left(times, after)
    return times[at] if at < len(times) else None
