"""Parsing of submitted objects: each becomes a checked, frozen value or is refused.

One file per group of kinds; :mod:`shared.manifests.parse` has the table of all kinds.
"""
