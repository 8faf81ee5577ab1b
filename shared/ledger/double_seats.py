"""The double's side of ownership: epochs, their leases, the blessed run; as the scripts have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.ledger.errors import Deposed, LeaseHeld
from shared.ledger.protocol import COORDINATOR, Leader
from shared.messages import Epoch


@dataclass(slots=True)
class _Lease:
    ends: float
    length: float
    given_back: bool = False


class Seats:
    """``clock``: the server's, in seconds; it may jump. ``nonce``: the random part of epochs."""

    def __init__(self, *, clock: Callable[[], float], nonce: Callable[[], str]) -> None:
        self._clock = clock
        self._nonce = nonce
        self._epochs: dict[str, Epoch] = {}
        self._leases: dict[str, _Lease] = {}
        self._holders: dict[str, str] = {}
        self.run = nonce()
        self.blessed = ""

    def claim(self, writer: str, *, leader: Epoch | None, lease: float, holder: str) -> Epoch:
        nonce = self._nonce()
        known = self._epochs.get(writer)
        if writer == COORDINATOR:
            left = self._left(COORDINATOR)
            if known is not None and left is not None and left > 0:
                raise LeaseHeld(known, left, self._holders[COORDINATOR])
        elif leader is None or not self.leads(leader):
            raise Deposed(f"epoch {leader or '(none)'} does not lead: {writer} is not its own")
        epoch = Epoch(known.counter + 1 if known else 1, nonce)
        self._epochs[writer] = epoch
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
        left = self._left(COORDINATOR)
        return Leader(epoch, self._holders[COORDINATOR], max(0.0, left or 0.0))

    def leads(self, epoch: Epoch) -> bool:
        return self._owns(COORDINATOR, epoch)

    def may_write(self, writer: str, epoch: Epoch) -> bool:
        """What the scripts ask before they judge a batch: they only read, so that a clock that was
        set back is not noticed here."""
        held = self._leases.get(writer)
        if self._epochs.get(writer) != epoch:
            return False
        return held is None or (not held.given_back and held.ends > self._clock())

    def restart(self) -> None:
        """As if the server had been killed and started again: durable, and not blessed."""
        self.run = self._nonce()

    def _owns(self, writer: str, epoch: Epoch) -> bool:
        """Also where the lease ran out: until somebody else claims the writer."""
        held = self._leases.get(writer)
        return self._epochs.get(writer) == epoch and (held is None or not held.given_back)

    def _left(self, writer: str) -> float | None:
        """Seconds that a lease still lasts. More than the whole: the clock was set back, and it
        begins anew."""
        held = self._leases.get(writer)
        if held is None:
            return None
        if held.given_back:
            return 0.0
        left = held.ends - self._clock()
        if left > held.length:
            held.ends, left = self._clock() + held.length, held.length
        return left
