"""Questions that take many runs of a week: which value is best, how many nodes are enough."""
