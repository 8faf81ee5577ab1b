"""The coordinator's state machine: composes order, dispatch and bind. No I/O and no clock.

``coordinator`` is the machine; ``reconcile`` compares its books with ledger and cluster;
``observer`` is the interface by which others follow its changes.
"""
