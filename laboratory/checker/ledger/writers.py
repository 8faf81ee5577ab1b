"""Writers, epochs and the order of log entries (promises 4, 5 and 6)."""

from __future__ import annotations

from typing import Any

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks

COORDINATOR = "coordinator"
"""The writer whose epochs are those of leaders."""

LEADERS = (COORDINATOR, "intake")
"""Writers that only the leader has."""

OF_SHARDS = ("epoch", "commit", "refusal")
"""Events that a shard's worker may write."""


class Writers:
    """Checks every ledger event before its content is read."""

    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._findings = books.findings
        self._epochs: dict[str, str] = {}
        self._ended: dict[tuple[str, str], int] = {}
        """(writer, epoch) -> line on which the writer's next epoch began."""
        self._effects: dict[tuple[str, str, int], str] = {}
        """(writer, epoch, sequence) of a request -> the entry with its effect."""
        self._last = (-1, -1)
        self._more = 0
        self._number = 0

    def feed(self, event: dict[str, Any]) -> None:
        self._order(event)
        self._entitled(event["writer"], event["ev"])
        if event["ev"] == "epoch":
            self._begin(event["writer"], event["epoch"])
        else:
            # In the order of the log, which is that in which the script judged: a late entry of an
            # older epoch would stand behind the newer one's beginning.
            self._belongs(event["writer"], event["epoch"])
            if "seq" in event:
                self._once(event["writer"], event["epoch"], event["seq"], event["id"])

    # --- the log ----------------------------------------------------------------------------------

    def _order(self, event: dict[str, Any]) -> None:
        """Check that no log entry is repeated or missing."""
        milliseconds, _, number = event["id"].partition("-")
        at = (int(milliseconds), int(number or 0))
        follows = at == self._last and self._more > 0
        if at <= self._last and not follows:
            self._findings.add(Rule.ONE_EFFECT, f"log entry {event['id']} takes effect again")
        if self._more and not follows:
            missing = f"{self._more} more events of the log entry before it"
            self._findings.add(Rule.NUMBERING, f"{missing} should come before {event['id']}")
        wrong = event.get("more", 0) != self._more - 1 if follows else event.get("part", 0) > 0
        if wrong:
            self._findings.add(Rule.NUMBERING, f"an event of log entry {event['id']} is missing")
        self._last, self._more = at, event.get("more", 0)
        if not follows and (number_of := event.get("n")):
            self._findings.checked[Rule.NUMBERING] += 1
            if self._number and number_of != self._number + 1:
                gap = f"entry {number_of} of the ledger's log follows entry {self._number}"
                self._findings.add(Rule.NUMBERING, gap)
            self._number = number_of

    # --- epochs -----------------------------------------------------------------------------------

    def _begin(self, writer: str, epoch: str) -> None:
        before = self._epochs.get(writer)
        if before is not None:
            self._ended[writer, before] = self._findings.line
            if _number(epoch) < _number(before):
                self._findings.add(Rule.EPOCH, f"{writer} got epoch {epoch} after {before}")
        self._epochs[writer] = epoch
        self._books.policies.begins(writer, t=self._books.t)

    def _entitled(self, writer: str, kind: str) -> None:
        """Check that a worker writes nothing but its statements."""
        if writer not in LEADERS and kind not in OF_SHARDS:
            self._findings.add(Rule.EPOCH, f"shard {writer} wrote a {kind}, as only a leader may")

    def _belongs(self, writer: str, epoch: str) -> None:
        """Check that the entry's epoch belongs to the writer and has not ended."""
        self._findings.checked[Rule.EPOCH] += 1
        current = self._epochs.setdefault(writer, epoch)
        if epoch == current:
            return
        ended = self._ended.get((writer, epoch))
        since = "never began" if ended is None else f"ended on line {ended}"
        self._findings.add(
            Rule.EPOCH, f"{writer} wrote under epoch {epoch}, which {since}; now it is {current}"
        )

    # --- requests ---------------------------------------------------------------------------------

    def _once(self, writer: str, epoch: str, sequence: int, entry: str) -> None:
        """Promise 5: a request has one effect. Sequence numbers may have gaps: a request refused as
        a whole (for another run of the server, say) leaves no entry."""
        first = self._effects.setdefault((writer, epoch, sequence), entry)
        if first != entry:
            self._findings.add(
                Rule.ONE_EFFECT,
                f"request {sequence} of {writer} (epoch {epoch}) took effect as {first} "
                f"and again as {entry}",
            )
            return
        self._findings.checked[Rule.ONE_EFFECT] += 1


def _number(epoch: str) -> int:
    """The part of an epoch that rises with each."""
    return int(epoch.partition(":")[0])
