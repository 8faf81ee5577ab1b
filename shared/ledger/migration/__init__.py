"""Migration of a ledger that an earlier version wrote to this version's schema."""
