"""Explanations and plans: ask the workers, word the answer, change nothing."""
