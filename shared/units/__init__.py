"""Slots, quantities, named things, comparison of amounts, and amounts as text."""
