"""Who leads: the lease, standing by, following the ledger, taking over."""
