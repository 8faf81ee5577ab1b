"""The append-only history of ledger and cluster, which the checker reads."""
