"""The desk of the ledger's own tests: on the server's scripts, and on the double."""

from tests.shared.ledger.conftest import desk, ledger

__all__ = ["desk", "ledger"]
