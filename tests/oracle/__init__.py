"""Differential oracle: Volcano's own code and ours decide the same random scenarios."""
