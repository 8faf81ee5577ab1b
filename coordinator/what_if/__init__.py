"""What would be decided: whole sessions over a recorded cluster, with nothing real touched."""
