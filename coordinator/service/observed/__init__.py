"""A cluster that has its own objects, watched: they are admitted here as they are there."""
