"""Judging submitted objects against what is known: new, changed, unchanged, or refused."""
