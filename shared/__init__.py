"""Objects, messages and the ledger: the base that coordinator and shard workers share."""
