"""The ledger audit: totals of the ledger against its own task records, in slices, beside the work.

Not to be taken for the audit of the *books* (:mod:`coordinator.service.reconcile_loop`), which
compares what the coordinator has in memory with the ledger: this one looks for what must not be in
the ledger itself, and trusts neither the books nor what it computed (decision 0039).
"""
