"""Why a patch cannot be applied."""

from __future__ import annotations


class PatchError(ValueError):
    """``malformed``: the patch itself is wrong, whatever the object; else it does not fit the
    object as it is. The message ends with the remedy."""

    def __init__(self, message: str, *, malformed: bool = True) -> None:
        super().__init__(message)
        self.malformed = malformed
