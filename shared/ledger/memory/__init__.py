"""The ledger on a server in memory, for seeded runs, replay and tests: the scripts themselves."""
