"""The state of ledger and cluster as replayed by the checker: jobs, nodes, queues, ownership."""
