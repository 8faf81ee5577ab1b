"""Evictions: victims, beneficiaries, and whether the policy allows them."""
