"""The ledger audit: checks the ledger's totals against its own task records, in slices, in the
background.

Not to be confused with the audit of the *books* (:mod:`coordinator.service.reconcile_loop`), which
compares the coordinator's memory with the ledger. This one looks for inconsistencies inside the
ledger, and trusts neither the books nor its own first result (decision 0039).
"""
