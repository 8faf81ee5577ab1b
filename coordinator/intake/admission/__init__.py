"""Judges each object against what is known, and owns names and numbers (``registry``)."""
