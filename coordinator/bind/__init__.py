"""From the ledger's bind stream to requests of the cluster, and from its reports to task states.

``binder`` decides, ``status_writer`` records; nodes that refuse are quarantined, evictions are
followed.
"""
