"""Verification: the checker, the model, seeded runs, fault injection and replays."""
