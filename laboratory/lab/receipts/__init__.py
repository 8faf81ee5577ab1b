"""Receipts of a played week: what each job waited for."""
