"""The ledger and the cluster as the checker plays them again: jobs, nodes, queues, owners."""
