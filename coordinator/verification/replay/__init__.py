"""A recorded cluster decided again, by this version, a policy or an arrangement of shards."""
