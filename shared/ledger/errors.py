"""Errors of the ledger, apart from verdicts (which are ordinary answers)."""

from __future__ import annotations

from shared.messages.messages import Epoch


class LedgerError(Exception):
    """The base class of the errors below."""


class LedgerUnavailable(LedgerError):
    """The server did not answer, or cannot write now. The outcome of a write is unknown.

    Send the same batch with the same sequence again: the ledger answers from its window if the
    first attempt was applied.
    """


class LedgerFault(LedgerError):
    """The server failed on a batch and would fail again: a defect, not to be retried."""


class LedgerArgument(LedgerError):
    """The batch itself is wrong (the message names object and field). Nothing of it was applied."""


class LedgerIdentity(LedgerError):
    """The server's data is not a ledger that this version may serve: its identity is lost or
    another's, or this version can neither read nor migrate its schema."""


class LedgerBehind(LedgerIdentity):
    """The server was restored from an old copy: its log lacks an entry that was seen before."""


class Deposed(LedgerError):
    """Another coordinator leads now: this one must stop."""


class LeaseHeld(LedgerError):
    """Another coordinator leads, and its lease has not expired."""

    def __init__(self, epoch: Epoch, seconds_left: float, holder: str) -> None:
        suffix = f" ({holder})" if holder else ""
        super().__init__(f"epoch {epoch}{suffix} leads for another {seconds_left:.3f} s")
        self.epoch = epoch
        self.seconds_left = seconds_left
        self.holder = holder


class LedgerAltered(LedgerError):
    """A record or a reply fails its checksum or form. Nothing of it is used.

    Where a script raises it, nothing of its batch was applied.
    """

    def __init__(self, record_name: str, why: str = "its bytes do not fit their seal") -> None:
        super().__init__(
            f"{record_name} is not as it was written: {why}; nothing of it was used. Take the "
            "ledger's data from a copy, then run quadrant ledger restore"
        )


class LedgerTrimmed(LedgerError):
    """The log no longer holds the entries after this id. Start again from a snapshot."""


class ServerFailed(LedgerError):
    """The embedded server did not start; the message ends with the last lines of its log."""
