"""Values over time: steps of a run, of nodes, and of what is in use."""
