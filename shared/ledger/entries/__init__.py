"""Types that the ledger stores and returns: records, log entries, snapshots, batches of objects."""
