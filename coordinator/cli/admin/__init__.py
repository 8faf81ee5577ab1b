"""Commands for who runs it: config, doctor, ledger, token, version."""
