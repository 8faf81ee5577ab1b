"""Sealed bytes read strictly, and dataclasses as arrays."""
