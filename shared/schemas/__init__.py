"""Schemas: the fields of each kind with descriptions, for parsers, merging and ``kubectl explain``.

One file per API group; ``catalogue`` combines them.
"""
