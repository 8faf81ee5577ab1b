"""The ledger in memory, for seeded runs and tests: a test double with the real one's answers."""
