"""Which shard gets a turn, and when: dispatcher, concurrency limit, calls to the workers.

The ownership of nodes is decided here too: partition, rebalance, handover.
"""
