"""The amounts behind promises: the capacity, and charges beside those of task classes."""
