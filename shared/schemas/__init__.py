"""The fields of each kind and what they mean: for parsers, merging and ``kubectl explain``.

One file for each API group; ``catalogue`` has all of them.
"""
