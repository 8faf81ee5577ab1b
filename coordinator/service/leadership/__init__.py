"""Leadership: the lease, standing by, following the ledger, taking over."""
