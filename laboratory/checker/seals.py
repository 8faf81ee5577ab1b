"""Checks that a history is as it was written: every line carries a checksum over itself and all
lines before it.

The end may be missing, since a kill leaves that. Lines before the first seal are of a version that
wrote none.
"""

from __future__ import annotations

import re
from zlib import crc32

from laboratory.checker.report.report import Findings
from laboratory.checker.report.rules import Rule

_SEAL = re.compile(rb',"seal":"([0-9a-f]{8})"\}\n\Z')


class SealChecks:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._before: int | None = None
        """The seal of the line before; None before the first."""

    def intact(self, line: bytes) -> bool:
        """Check the next line; False if it differs from what was written."""
        match = _SEAL.search(line, max(len(line) - 24, 0))
        if match is None and self._before is None:
            return True
        self._findings.checked[Rule.SEALED] += 1
        if match is None:
            self._findings.add(Rule.SEALED, "the line has no seal, and those before it have")
            return False
        written = int(match[1], 16)
        expected = crc32(b"}", crc32(line[: match.start()], self._before or 0))
        self._before = written
        if written != expected:
            problem = f"its seal is {written:08x}, it and the lines before give {expected:08x}"
            remedy = "it was changed, or lines before it were added, changed or lost"
            self._findings.add(Rule.SEALED, f"{problem}: {remedy}")
        return written == expected

    def settle(self) -> None:
        """Check that the history has any line: an empty one shows nothing."""
        if not self._findings.line:
            self._findings.add(Rule.SEALED, "the history is empty")
