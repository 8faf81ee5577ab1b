"""The ledger in Redis, the only source of truth: accounts, task states, nominations, epochs and the
log of changes."""
