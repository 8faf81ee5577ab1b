"""The controller of Jobs: what follows when their pods end."""
