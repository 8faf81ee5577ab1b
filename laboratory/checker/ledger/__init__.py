"""The ledger's events: statements, states, nominations, repairs."""
