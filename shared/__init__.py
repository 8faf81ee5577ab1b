"""What the coordinator and the shard workers both speak: objects, messages, the ledger."""
