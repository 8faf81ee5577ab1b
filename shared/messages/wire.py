"""The encoding of turns, and the text of an epoch."""

from __future__ import annotations

import re

from shared.codec.checked import Malformed, text
from shared.codec.packed import Codec
from shared.messages.messages import Epoch, Turn

TURNS = Codec(b"turns", list[Turn])

_EPOCH = re.compile(r"[0-9]{1,15}:[!-9;-~]{1,64}")


def parse_epoch(value: object, at: str) -> Epoch:
    epoch = text(value, at)
    if _EPOCH.fullmatch(epoch) is None:
        raise Malformed(f"{at}: not an epoch: COUNTER:NONCE wanted")
    return Epoch.parse(epoch)
