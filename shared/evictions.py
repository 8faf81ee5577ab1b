"""Words for what an action that evicts in vain tells: counts of tasks, where others count nodes."""

CONSIDERED = "tasks looked at"
"""How many might have been evicted, as far as anybody was asked."""
KEPT_BY = "kept by "
"""Before a plugin's name: how many it did not let go."""
