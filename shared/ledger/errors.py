"""What can go wrong between us and the ledger, apart from verdicts (which are ordinary answers)."""

from __future__ import annotations

from shared.messages import Epoch


class LedgerError(Exception):
    """The parent of every error below."""


class LedgerUnavailable(LedgerError):
    """The server did not answer, or cannot write now. The outcome of a write is unknown.

    Send the same batch with the same sequence again: the ledger answers from its window if the
    first attempt was applied.
    """


class LedgerFault(LedgerError):
    """The server failed at a batch and would fail again: a defect, not to be sent again."""


class LedgerArgument(LedgerError):
    """The batch itself is wrong (names object and field). Nothing of it was applied."""


class LedgerIdentity(LedgerError):
    """The data on this server is not a ledger we may serve: lost identity or a newer schema."""


class LedgerBehind(LedgerIdentity):
    """The server came back from an old copy: the log does not have what was already seen in it."""


class Deposed(LedgerError):
    """Another coordinator leads now: this one must stop."""


class LeaseHeld(LedgerError):
    """Another coordinator leads, and its lease has not run out yet."""

    def __init__(self, epoch: Epoch, seconds_left: float, holder: str) -> None:
        who = f" ({holder})" if holder else ""
        super().__init__(f"epoch {epoch}{who} leads for another {seconds_left:.3f} s")
        self.epoch = epoch
        self.seconds_left = seconds_left
        self.holder = holder


class LedgerAltered(LedgerError):
    """Something in the ledger, or on the way from it, is not as it was written. It is not used.

    What a script refuses so was not applied."""

    def __init__(self, what: str, why: str = "its bytes do not fit their seal") -> None:
        super().__init__(
            f"{what} is not as it was written: {why}; nothing of it was used. Take the ledger's "
            "data from a copy, then run quadrant ledger restore"
        )


class LedgerTrimmed(LedgerError):
    """The log no longer holds the entries after this id. Start again from a snapshot."""


class ServerFailed(LedgerError):
    """The embedded server did not start; the message ends with the last lines of its log."""
