"""Several machines, each a network namespace with an address of its own."""
