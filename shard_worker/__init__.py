"""One shard: the view of the cluster, the session over it, the statement, the actor around them."""
