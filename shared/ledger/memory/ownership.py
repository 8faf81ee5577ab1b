"""The double's side of ownership: epochs, their leases, the blessed run; by the scripts' rules."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from shared.ledger.errors import Deposed, LeaseHeld
from shared.ledger.protocol import COORDINATOR, Leader
from shared.messages.messages import Epoch


@dataclass(slots=True)
class _Lease:
    ends: float
    length: float
    given_back: bool = False


OwnershipCopy = tuple[dict[str, Epoch], dict[str, _Lease], dict[str, str], str, dict[str, Epoch]]
"""Epochs, leases and holders of writers; the blessed run; epochs claimed in a run that is not
accepted yet."""


class WriterOwnership:
    """``clock``: the server's, in seconds; it may jump. ``nonce``: the random part of epochs."""

    def __init__(self, *, clock: Callable[[], float], nonce: Callable[[], str]) -> None:
        self._clock = clock
        self._nonce = nonce
        self._epochs: dict[str, Epoch] = {}
        self._leases: dict[str, _Lease] = {}
        self._holders: dict[str, str] = {}
        self.run = nonce()
        self.blessed = ""
        self.untold: dict[str, Epoch] = {}
        """Epochs of writers that were claimed in a server run which no leader has accepted yet."""

    def claim(self, writer: str, *, leader: Epoch | None, lease: float, holder: str) -> Epoch:
        nonce = self._nonce()
        previous = self._epochs.get(writer)
        if writer == COORDINATOR:
            seconds_left = self._left(COORDINATOR)
            if previous is not None and seconds_left is not None and seconds_left > 0:
                raise LeaseHeld(previous, seconds_left, self._holders[COORDINATOR])
        elif leader is None or not self.leads(leader):
            raise Deposed(f"epoch {leader or '(none)'} does not lead: {writer} is not its own")
        epoch = Epoch(previous.counter + 1 if previous else 1, nonce)
        self._epochs[writer] = epoch
        if self.run != self.blessed:
            self.untold[writer] = epoch
        self._holders[writer] = holder
        self._leases.pop(writer, None)
        if lease > 0:
            self._leases[writer] = _Lease(self._clock() + lease, lease)
        return epoch

    def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        if not self._owns(writer, epoch):
            return False
        self._leases[writer] = _Lease(self._clock() + lease, lease)
        return True

    def release(self, writer: str, epoch: Epoch) -> None:
        if self._epochs.get(writer) == epoch:
            self._leases[writer] = _Lease(0.0, 0.0, given_back=True)

    def leader(self) -> Leader | None:
        epoch = self._epochs.get(COORDINATOR)
        if epoch is None:
            return None
        seconds_left = self._left(COORDINATOR)
        return Leader(epoch, self._holders[COORDINATOR], max(0.0, seconds_left or 0.0))

    def leads(self, epoch: Epoch) -> bool:
        return self._owns(COORDINATOR, epoch)

    def may_write(self, writer: str, epoch: Epoch) -> bool:
        """Whether this writer may write under this epoch; checked before a batch is judged. The
        scripts only read here, so a clock that was set back is not noticed."""
        writer_lease = self._leases.get(writer)
        if self._epochs.get(writer) != epoch:
            return False
        return writer_lease is None or (
            not writer_lease.given_back and writer_lease.ends > self._clock()
        )

    def restart(self) -> None:
        """Behave as if the server had been killed and restarted: everything durable, the new run
        not blessed."""
        self.run = self._nonce()

    def copy(self) -> OwnershipCopy:
        """The durable part. The run id is not: it is that of the server's process."""
        return deepcopy((self._epochs, self._leases, self._holders, self.blessed, self.untold))

    def bring_back(self, copy: OwnershipCopy) -> None:
        """Replace the state by a copy, as for a server that was started with it."""
        self._epochs, self._leases, self._holders, self.blessed, self.untold = deepcopy(copy)
        self.restart()

    def _owns(self, writer: str, epoch: Epoch) -> bool:
        """Whether the epoch owns the writer. True also after the lease expired, until another
        claims it."""
        writer_lease = self._leases.get(writer)
        return self._epochs.get(writer) == epoch and (
            writer_lease is None or not writer_lease.given_back
        )

    def _left(self, writer: str) -> float | None:
        """Remaining seconds of a lease. More than its whole length means that the clock was set
        back: the lease starts again."""
        writer_lease = self._leases.get(writer)
        if writer_lease is None:
            return None
        if writer_lease.given_back:
            return 0.0
        seconds = writer_lease.ends - self._clock()
        if seconds > writer_lease.length:
            writer_lease.ends, seconds = self._clock() + writer_lease.length, writer_lease.length
        return seconds
