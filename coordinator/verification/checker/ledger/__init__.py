"""The ledger's events, one by one: statements, states, nominations, repairs."""
