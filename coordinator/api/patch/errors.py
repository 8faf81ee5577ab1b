"""The error of a patch that cannot be applied."""

from __future__ import annotations


class PatchError(ValueError):
    """``malformed``: the patch itself is invalid, whatever the object; otherwise it does not fit
    the current object. The message ends with the remedy."""

    def __init__(self, message: str, *, malformed: bool = True) -> None:
        super().__init__(message)
        self.malformed = malformed
