"""Fault injection on real processes: the plan of faults, the load, and the judgement of the
history."""
