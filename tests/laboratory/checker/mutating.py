"""Tools for mutations of a history: find, change and remove events, and number them anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from coordinator.cluster.history.seal import START, sealed_lines
from laboratory.checker.check import check_lines
from laboratory.checker.report.report import CheckReport

Event = dict[str, Any]


class History:
    """Events of a real run, as they are changed by one mutation."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.lines: list[bytes] | None = None
        """Lines of a mutated file, whose seals stay as they were."""

    # --- finding ----------------------------------------------------------------------------------

    def all(self, ev: str) -> list[Event]:
        return [event for event in self.events if event["ev"] == ev]

    def jid(self, name: str) -> int:
        return int(self.job(name)["jid"])

    def job(self, name: str) -> Event:
        """First ledger record of the job."""
        result: Event = next(
            job for e in self.all("job") for job in e["jobs"] if job["key"] == f"ns/{name}"
        )
        return result

    def statements(self, name: str) -> Iterator[tuple[Event, Event]]:
        """(event, statement) of every statement of a job."""
        jid = self.jid(name)
        for event in self.all("commit"):
            for statement in event["statements"]:
                if statement["jid"] == jid:
                    yield event, statement

    def placing(self, name: str) -> tuple[Event, Event]:
        return next((e, s) for e, s in self.statements(name) if s["alloc"])

    def evicting(self, action: str) -> tuple[Event, Event]:
        return next(
            (event, statement)
            for event in self.all("commit")
            for statement in event["statements"]
            if statement.get("reason", "").startswith(action)
        )

    def status(self, name: str, state: str) -> Event:
        """The first record of tasks of a job in a state."""
        jid = self.jid(name)
        return next(
            e for e in self.all("status") if any(i[0] == state and i[1] == jid for i in e["items"])
        )

    def node(self, name: str) -> Event:
        result: Event = next(n for e in self.all("node") for n in e["nodes"] if n["name"] == name)
        return result

    def value(self, key: str) -> Event:
        result: Event = next(e for e in self.all("object") if key in e.get("values", {}))
        return result

    def at(self, event: Event) -> int:
        return next(i for i, other in enumerate(self.events) if other is event)

    # --- changing ---------------------------------------------------------------------------------

    def remove(self, event: Event) -> None:
        del self.events[self.at(event)]

    def move(self, event: Event, *, before: Event) -> None:
        self.remove(event)
        self.events.insert(self.at(before), event)

    def insert(self, event: Event, *, before: Event) -> None:
        self.events.insert(self.at(before), event)

    def entry(self, like: Event, ev: str, **body: Any) -> Event:
        """An entry of the ledger's log as its neighbour would have written it; to be inserted."""
        head = {name: like[name] for name in ("t", "src", "n", "id", "writer", "epoch")}
        if "seq" in like and ev != "epoch":
            head["seq"] = like["seq"]
        return {**head, "ev": ev, **body}

    def evict_too(self, event: Event, statement: Event, *, besides: Collection[int] = ()) -> None:
        """Add a running task of the class that the statement places to its victims, on a node that
        it uses, or on one ``besides`` these."""
        running = self.running(before=event)
        gone = {(run[0], tix) for run in statement["evict"] for tix in run[4]}
        used = {row for _, row, _, _ in statement["nominate"]}
        (jid, tix), (row, cid) = next(
            item
            for item in running.items()
            if item[0] not in gone
            and item[1][1] == statement["nominate"][0][2]
            and (item[1][0] not in besides if besides else item[1][0] in used)
        )
        statement["evict"].append([jid, self.spec(jid), cid, 0, [tix], [row], 0])

    def evicted_rows(self) -> set[int]:
        """The nodes that victims of any statement are on."""
        statements = (s for event in self.all("commit") for s in event["statements"])
        return {row for s in statements for run in s.get("evict", ()) for row in run[5]}

    def spec(self, jid: int) -> int:
        return int(next(j["spec"] for e in self.all("job") for j in e["jobs"] if j["jid"] == jid))

    def running(self, *, before: Event) -> dict[tuple[int, int], tuple[int, int]]:
        """(jid, tix) -> (row, class) of plain tasks that run before an event."""
        rows: dict[tuple[int, int], tuple[int, int]] = {}
        running: dict[tuple[int, int], tuple[int, int]] = {}
        for event in self.events[: self.at(before)]:
            for statement in event.get("statements", ()):
                for tix, row, cid, _ in statement["alloc"]:
                    rows[statement["jid"], tix] = row, cid
            if event["ev"] == "status":
                for state, jid, tasks, _ in event["items"]:
                    for tix in tasks:
                        running.pop((jid, tix), None)
                        if state == "RUNNING":
                            running[jid, tix] = rows[jid, tix]
        return running

    def wait(self, seconds: float, *, before: Event) -> None:
        """From this event on everything is so much later."""
        for event in self.events[self.at(before) :]:
            event["t"] += seconds
            for statement in event.get("statements", ()):
                if "expiry" in statement:
                    statement["expiry"] += seconds

    def without(self, jid: int) -> None:
        """Nobody but who was told of it speaks of a job any more."""
        for event in self.events:
            for column in ("jobs", "statements"):
                if column in event and event["ev"] != "acknowledged":
                    event[column] = [item for item in event[column] if item["jid"] != jid]
            if "items" in event:
                event["items"] = [item for item in event["items"] if item[1] != jid]
            for statement in event.get("statements", ()):
                statement["dropped"] = [other for other in statement["dropped"] if other != jid]
            if "tasks" in event:
                self._keep(event, lambda task: not task.startswith(f"{jid}."))

    def untold(self, task: str, *, after: Event) -> None:
        """Nothing is said of a task after an event, by either side."""
        jid, tix = map(int, task.split("."))
        for event in self.events[self.at(after) + 1 :]:
            if event["ev"] in ("status", "adopted"):
                for item in event["items"]:
                    if item[1] == jid and tix in item[2]:
                        where = item[2].index(tix)
                        item[2].pop(where)
                        item[3].pop(where)
            elif "tasks" in event:
                self._keep(event, lambda named: named != task)

    @staticmethod
    def _keep(event: Event, predicate: Callable[[str], bool]) -> None:
        rows = [i for i, task in enumerate(event["tasks"]) if predicate(task)]
        for column in ("tasks", "nodes", "uids", "answers", "durations", "codes"):
            if event.get(column):
                event[column] = [event[column][i] for i in rows]

    def renumber(self) -> None:
        """No number tells that events came or went: only what they say can."""
        entries = {"ledger": 0, "cluster": 0}
        last = ("", "")
        requests: dict[tuple[str, str], int] = {}
        for event in self.events:
            same = (event["src"], event.get("id", ""))
            if event["src"] == "cluster" or same != last:
                entries[event["src"]] += 1
                if event.get("writer", "").isdecimal() and "seq" in event:
                    key = (event["writer"], event["epoch"])
                    requests[key] = requests.get(key, 0) + 1
            event["n"] = entries[event["src"]]
            last = same
            if event["src"] == "ledger":
                event["id"] = f"{event['n']}-0"
                last = (event["src"], same[1])
                if event["writer"].isdecimal() and "seq" in event:
                    event["seq"] = requests[event["writer"], event["epoch"]]

    # --- judging ----------------------------------------------------------------------------------

    def check(self) -> CheckReport:
        return check_lines(self.sealed(), name="mutated", closed=True)

    def sealed(self) -> list[bytes]:
        """The lines of the file, with new seals unless the mutation is of the file itself."""
        if self.lines is not None:
            return self.lines
        unsealed = [{k: v for k, v in event.items() if k != "seal"} for event in self.events]
        return sealed_lines(unsealed, START)[0]
