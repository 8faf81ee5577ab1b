"""Objects as they are submitted, turned into checked, frozen values or refused.

One file for each group of kinds; :mod:`shared.manifests.parse` has the table of all kinds.
"""
