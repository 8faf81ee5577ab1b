"""The ledger on a server that speaks Redis' protocol: client, identity, rights, the server
itself."""
