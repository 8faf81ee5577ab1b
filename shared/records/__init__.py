"""Byte formats of the objects and decisions that the ledger stores."""
