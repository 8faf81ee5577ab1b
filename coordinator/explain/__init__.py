"""Explanations and plans: inquire at the workers, word the answer, change nothing."""
