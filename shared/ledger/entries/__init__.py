"""What the ledger keeps and tells: records, log entries, snapshots, batches of objects."""
