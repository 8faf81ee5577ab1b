"""The same ledger in memory, for seeded runs and tests."""
