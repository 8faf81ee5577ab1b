"""The ledger on a server that speaks Redis' protocol: client, identity, permissions, and the
embedded server."""
