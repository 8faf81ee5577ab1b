"""The shadow: Quadrant decides beside the scheduler in charge, and writes nothing to the cluster.

What it would do stands in its own ledger until the cluster shows what was done; then its books
follow the cluster, and both are compared.
"""
