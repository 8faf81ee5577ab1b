"""Inquiries: dry runs of turns that return their results and the reasons, for explanations and
plans."""
