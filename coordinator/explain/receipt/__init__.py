"""Receipts: the parts of a job's wait, which sum exactly to it."""
