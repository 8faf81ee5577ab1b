"""Jobs decoded from their specifications, remembered: they recur as neighbours and victims."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from shared.codec.packed import replace
from shared.model.model import Job
from shared.records.specs_jobs import decode_job

REMEMBERED = 4096
"""Cached specifications."""


class Decoded:
    """A cache of jobs by their encoded specifications, the most recently used ones."""

    def __init__(
        self, limit: int = REMEMBERED, *, numbers: Mapping[int, int] | None = None
    ) -> None:
        """``numbers``: class numbers of jobs -> class numbers here."""
        self._limit = limit
        self._numbers = numbers or {}
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()

    def job(self, spec: bytes) -> Job:
        """Errors: Malformed."""
        job = self._jobs.get(spec)
        if job is None:
            job = self._jobs[spec] = self._renumbered(decode_job(spec))
            if len(self._jobs) > self._limit:
                self._jobs.popitem(last=False)
        else:
            self._jobs.move_to_end(spec)
        return job

    def _renumbered(self, job: Job) -> Job:
        if not self._numbers:
            return job
        roles = (replace(r, cid=self._numbers.get(r.cid, r.cid)) for r in job.roles)
        return replace(job, roles=tuple(roles))
