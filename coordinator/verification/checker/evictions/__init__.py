"""Who was evicted, for whom, and whether the policy allows it."""
