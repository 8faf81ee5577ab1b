"""The desk of the ledger's own tests: on a real server, and on one in memory."""

from tests.shared.ledger.conftest import desk, ledger

__all__ = ["desk", "ledger"]
