"""Plays a recorded week under policies on virtual time, measures it and writes the report."""
