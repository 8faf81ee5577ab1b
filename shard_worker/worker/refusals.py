"""Which of the ledger's refusals a worker can cure by placing the turn again."""

from __future__ import annotations

from shared.messages.messages import Verdict

HOPELESS = frozenset({Verdict.JOB, Verdict.TASK})
"""Refusals that mean the turn itself is out of date."""
NOT_OURS = frozenset({Verdict.QUEUE})
"""Refusals that another node cannot cure: Order has to decide."""

OF_THE_EXCERPT = frozenset({*HOPELESS, *NOT_OURS, Verdict.GANG, Verdict.DOMAIN})
"""Refusals of a turn with a session that follow from its excerpt: Order must send a new one."""
NOT_AS_TOLD = frozenset({*HOPELESS, Verdict.DOMAIN})
TRUST_ATTEMPTS = 2
"""After this many refusals in a row by one of these, Order's knowledge is out of date, and the job
is reread."""
